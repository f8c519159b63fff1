/* The C interface of libthalweg.so. JSON goes in and comes out (docs/api.md); nothing throws.
 *
 * Strings are UTF-8 and end with a zero byte. A string that a function hands out through a char**
 * is the caller's and goes back with thalweg_free. Every function may be called from any thread; a
 * handle must not be used during or after thalweg_close. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "thalweg/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function or a field of a struct changes its meaning or goes away, not when one is
 * added. Compare with thalweg_abi_version() before anything else. */
#define THALWEG_ABI_VERSION 1

typedef enum thalweg_code {
  THALWEG_OK = 0,
  THALWEG_INVALID_ARGUMENT = 1,
  THALWEG_NOT_FOUND = 2,
  THALWEG_FAILED_PRECONDITION = 3,
  THALWEG_OUT_OF_RANGE = 4,
  THALWEG_UNSUPPORTED = 5,
  THALWEG_RESOURCE_EXHAUSTED = 6,
  THALWEG_IO = 7,
  THALWEG_INTERNAL = 8
} thalweg_code;

typedef struct thalweg_llm thalweg_llm;

THALWEG_API uint32_t thalweg_abi_version(void);
/* "major.minor.patch"; lives as long as the library. */
THALWEG_API const char* thalweg_version(void);

/* Loads a model. options_json: an object from option name to value ({} or NULL: all defaults;
 * "model" names a folder or a Hugging Face repository). On an error *llm is NULL and
 * thalweg_last_error(NULL) has the message. */
THALWEG_API thalweg_code thalweg_load(const char* options_json, thalweg_llm** llm);
/* Cancels what is under way, waits, frees. NULL is ignored. */
THALWEG_API void thalweg_close(thalweg_llm* llm);
/* The message of the newest error of this handle (NULL: of a call without a handle on this thread);
 * "" when there was none. Lives until the next call of this function on this thread. */
THALWEG_API const char* thalweg_last_error(const thalweg_llm* llm);

/* Every option: a JSON array of {name, type, default, environment, help, choices, least, most}. */
THALWEG_API thalweg_code thalweg_options(char** options_json);

/* Answers many prompts and waits. request_json:
 *   {"prompts": ["text", [0, 5, 9], {"messages": [{"role": "user", "content": "..."}]}],
 *    "params": {"temperature": 0} or one such object for each prompt}
 * *results_json: an array with one output for each prompt, in their order; one that was refused has
 * "error": {"code", "message"}. The call itself fails only when request_json cannot be read. */
THALWEG_API thalweg_code thalweg_generate(thalweg_llm* llm, const char* request_json,
                                          char** results_json);

/* Called on a thread of the library with an output as JSON; the last one has "finished": true. The
 * string lives until the callback returns. It should not block and must not call thalweg_close. */
typedef void (*thalweg_callback)(const char* output_json, void* user);
/* Queues one request. request_json: {"prompt": as above, "params": {...}, "request_id": "...",
 * "priority": 0, "cache_salt": "", "prefix_reuse": true};
 * params may hold "output_kind": "cumulative", "delta" or "final_only". *request_id (may be NULL)
 * gets its id. On an error the callback is never called. */
THALWEG_API thalweg_code thalweg_stream(thalweg_llm* llm, const char* request_json,
                                        thalweg_callback callback, void* user, char** request_id);
/* Ends a request with "cancelled"; unknown ids are ignored. */
THALWEG_API thalweg_code thalweg_cancel(thalweg_llm* llm, const char* request_id);

/* Counters and times as a JSON object. */
THALWEG_API thalweg_code thalweg_metrics(thalweg_llm* llm, char** metrics_json);
/* Token ids of a text as a text prompt is read. *ids goes back with thalweg_free. */
THALWEG_API thalweg_code thalweg_encode(thalweg_llm* llm, const char* text, int32_t** ids,
                                        size_t* count);
THALWEG_API thalweg_code thalweg_decode(thalweg_llm* llm, const int32_t* ids, size_t count,
                                        int skip_special_tokens, char** text);

/* Frees what a function of this header handed out. NULL is ignored. */
THALWEG_API void thalweg_free(void* memory);

#ifdef __cplusplus
}
#endif
