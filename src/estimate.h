/* What the estimating files share. Not for hosts. */
#ifndef CPT_ESTIMATE_H
#define CPT_ESTIMATE_H

#include <stdint.h>

/* Role, separators and field names that providers wrap around each message. */
#define ENVELOPE_TOKENS 5

/* A large image bills 1,100 to 1,600 tokens. Too high compacts early, too low overflows. */
#define ATTACHMENT_TOKENS 1500

/* The seed's scale for sums over windows: charged and guessed tokens. calibrate.c */
#if defined(__GNUC__)
__attribute__((visibility("hidden")))
#endif
double
seed_scale(int64_t measured, int64_t estimated);

#endif
