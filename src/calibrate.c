/* The correction that a conversation's own usage teaches. */
#include "compaction.h"
#include "estimate.h"
#include "saturate.h"

/* Less guessed mass than this says more about envelopes and chance than
 * about the text. */
#define MIN_ESTIMATED 512

/* A ratio outside is a fault of the reports, not a property of text. The room is larger
 * upwards: a scale too high compacts early, one too low overflows. */
#define MIN_SCALE 0.75
#define MAX_SCALE 2.0

/* The ratio, once there is enough of it, within bounds. */
double seed_scale(int64_t measured, int64_t estimated) {
  if (estimated < MIN_ESTIMATED) return 1.0;
  double scale = (double)measured / (double)estimated;
  if (scale < MIN_SCALE) return MIN_SCALE;
  if (scale > MAX_SCALE) return MAX_SCALE;
  return scale;
}

void cpt_calibration_init(cpt_calibration *c) { *c = (cpt_calibration){0}; }

static bool same_model(uint64_t a, uint64_t b) { return a == 0 || b == 0 || a == b; }

/* m is an anchor: learn from the window that ends with it. */
static void close_window(cpt_calibration *c, const cpt_message *m) {
  int64_t measured = sat_sub(sat_sub(m->prompt, c->base), c->reported);
  if (measured <= 0) return;                   /* the prompt was rebuilt between the anchors */
  if (c->guessed <= 0) return;                 /* nothing to compare with */
  if (!same_model(c->model, m->model)) return; /* two tokenizers in one difference */
  c->measured = sat_add(c->measured, measured);
  c->estimated = sat_add(c->estimated, c->guessed);
  c->windows++;
}

static void open_window(cpt_calibration *c, const cpt_message *m) {
  int64_t answer = sat_sub(m->output, m->reasoning); /* reasoning is not sent again */
  c->base = sat_add(m->prompt, answer > 0 ? answer : 0);
  c->reported = 0;
  c->guessed = 0;
  c->model = m->model;
  c->open = true;
}

static void widen_window(cpt_calibration *c, const cpt_message *m) {
  int64_t reported = cpt_reported(m);
  if (reported > 0)
    c->reported = sat_add(c->reported, reported);
  else
    c->guessed = sat_add(c->guessed, cpt_guess(m));
}

void cpt_calibration_add(cpt_calibration *c, const cpt_message *m) {
  if (cpt_is_anchor(m)) {
    if (c->open) close_window(c, m);
    open_window(c, m);
  } else if (c->open) {
    widen_window(c, m);
  }
}

double cpt_calibration_scale(const cpt_calibration *c) {
  return seed_scale(c->measured, c->estimated);
}

double cpt_calibrate(const cpt_message *m, size_t n) {
  cpt_calibration c;
  cpt_calibration_init(&c);
  for (size_t i = 0; i < n; i++)
    cpt_calibration_add(&c, &m[i]);
  return cpt_calibration_scale(&c);
}
