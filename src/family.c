/* Which tokenizer a model has, told by its name. */
#include <string.h>

#include "compaction.h"

static const char *const names[CPT_FAMILIES] = {
    [CPT_UNKNOWN] = "unknown",   [CPT_OPENAI] = "openai",     [CPT_OPENAI_LEGACY] = "openai-legacy",
    [CPT_CLAUDE_4] = "claude-4", [CPT_CLAUDE_5] = "claude-5", [CPT_GEMINI] = "gemini",
    [CPT_DEEPSEEK] = "deepseek", [CPT_LLAMA] = "llama",       [CPT_QWEN] = "qwen",
};

const char *cpt_family_name(cpt_family family) { return names[family]; }

bool cpt_family_named(const char *name, size_t bytes, cpt_family *family) {
  for (int f = 0; f < CPT_FAMILIES; f++) {
    if (strlen(names[f]) == bytes && memcmp(names[f], name, bytes) == 0) {
      *family = (cpt_family)f;
      return true;
    }
  }
  return false;
}

/* Longer than any model's name with all its prefixes; what lies behind is not looked at. */
#define MAX_NAME 200

/* A name in small letters, with '-' for every other sign, so that one pattern fits
 * "GPT-4o", "gpt_4o", "openai/gpt-4o-2024-08-06" and "us.anthropic.claude-sonnet-4-5-v1:0". */
static void normalize(char out[MAX_NAME + 2], const char *name, size_t bytes) {
  size_t n = bytes < MAX_NAME ? bytes : MAX_NAME;
  out[0] = '-';
  for (size_t i = 0; i < n; i++) {
    char c = name[i];
    if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
    bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    out[i + 1] = plain ? c : '-';
  }
  out[n + 1] = '\0';
}

/* Looked for in this order: the first that occurs in the name decides. A pattern that starts
 * with '-' starts a word. */
static const struct {
  const char *pattern;
  cpt_family family;
} patterns[] = {
    /* distilled models have the tokenizer of the model they were made of */
    {"deepseek-r1-distill-llama", CPT_LLAMA},
    {"deepseek-r1-distill-qwen", CPT_QWEN},
    {"-gpt-4o", CPT_OPENAI},
    {"-gpt4o", CPT_OPENAI},
    {"-chatgpt-4o", CPT_OPENAI},
    {"-gpt-4-1", CPT_OPENAI},
    {"-gpt-4-5", CPT_OPENAI},
    {"-gpt-4", CPT_OPENAI_LEGACY},
    {"-gpt4", CPT_OPENAI_LEGACY},
    {"-gpt-3", CPT_OPENAI_LEGACY},
    {"-gpt3", CPT_OPENAI_LEGACY},
    {"-gpt-35", CPT_OPENAI_LEGACY},
    {"text-embedding", CPT_OPENAI_LEGACY},
    {"-gpt", CPT_OPENAI},
    {"-chatgpt", CPT_OPENAI},
    {"-codex", CPT_OPENAI},
    {"-o1", CPT_OPENAI},
    {"-o3", CPT_OPENAI},
    {"-o4", CPT_OPENAI},
    {"-fable", CPT_CLAUDE_5},
    {"-gemini", CPT_GEMINI},
    {"-gemma", CPT_GEMINI},
    {"-learnlm", CPT_GEMINI},
    {"-deepseek", CPT_DEEPSEEK},
    {"-llama-4", CPT_OPENAI}, /* its tokenizer is of the o200k kind */
    {"-llama4", CPT_OPENAI},
    {"-llama", CPT_LLAMA},
    {"-codellama", CPT_LLAMA},
    {"-qwen", CPT_QWEN},
    {"-qwq", CPT_QWEN},
};

/* The number at *s, and *s behind it; -1 if there is none, or one too long to be a version. */
static int version_number(const char **s) {
  int n = 0, digits = 0;
  for (; **s >= '0' && **s <= '9'; (*s)++, digits++)
    n = digits < 2 ? 10 * n + (**s - '0') : n;
  return digits == 1 || digits == 2 ? n : -1;
}

/* Claude's tokenizer changed with 4.7. The version stands before or behind the tier:
 * claude-3-5-sonnet-20241022, claude-sonnet-4-5, claude-opus-4-8@20260101, claude-5. */
static cpt_family claude_of(const char *name) {
  for (const char *s = name; *s != '\0'; s++) {
    bool starts = s[0] == '-' && s[1] >= '0' && s[1] <= '9';
    if (!starts) continue;
    const char *digits = s + 1;
    int major = version_number(&digits);
    if (major < 0) continue;
    int minor = -1;
    if (*digits == '-') {
      digits++;
      minor = version_number(&digits);
    }
    if (major >= 5 || (major == 4 && minor >= 7)) return CPT_CLAUDE_5;
    return CPT_CLAUDE_4;
  }
  return CPT_CLAUDE_4;
}

cpt_family cpt_family_of(const char *model, size_t bytes) {
  char name[MAX_NAME + 2];
  normalize(name, model, bytes);
  const char *claude = strstr(name, "-claude");
  if (claude != NULL) return strstr(name, "-fable") != NULL ? CPT_CLAUDE_5 : claude_of(claude);
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    if (strstr(name, patterns[i].pattern) != NULL) return patterns[i].family;
  }
  /* tiers alone, as Anthropic's tools name them: "opus", "sonnet-4-5" */
  if (strstr(name, "-opus") || strstr(name, "-sonnet") || strstr(name, "-haiku"))
    return claude_of(name);
  return CPT_UNKNOWN;
}
