/* What the text estimator shares with its tables. Not for hosts. */
#ifndef CPT_TEXT_H
#define CPT_TEXT_H

#include <stdint.h>

#define TEXT_TABLE_BYTES 65536

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Weights in hundredths of a token, at current byte << 8 | previous byte. */
extern const uint8_t text_table_openai[TEXT_TABLE_BYTES];
extern const uint8_t text_table_openai_legacy[TEXT_TABLE_BYTES];
extern const uint8_t text_table_claude_4[TEXT_TABLE_BYTES];
extern const uint8_t text_table_claude_5[TEXT_TABLE_BYTES];
extern const uint8_t text_table_gemini[TEXT_TABLE_BYTES];
extern const uint8_t text_table_deepseek[TEXT_TABLE_BYTES];
extern const uint8_t text_table_llama[TEXT_TABLE_BYTES];
extern const uint8_t text_table_qwen[TEXT_TABLE_BYTES];

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
