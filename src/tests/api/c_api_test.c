/* A plain C program over libthalweg.so: versions, errors, a batch, a stream, cancelling, tokens.
 * Prints what does not hold and returns 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thalweg/thalweg.h>

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "does not hold: %s\n", what);
  ++failures;
}

struct collected {
  int calls;
  int finished;
  int cancelled;
};

static void collect(const char* output_json, void* user) {
  struct collected* c = user;
  ++c->calls;
  if (strstr(output_json, "\"finish_reason\":\"cancelled\"") != NULL) c->cancelled = 1;
  if (strstr(output_json, "\"finished\":true") == NULL) return;
  __atomic_store_n(&c->finished, 1, __ATOMIC_RELEASE);
}

static void wait_for(struct collected* c) {
  while (!__atomic_load_n(&c->finished, __ATOMIC_ACQUIRE)) {
  }
}

static void check_errors(thalweg_llm* llm) {
  char* text = NULL;
  thalweg_llm* none = NULL;
  expect(thalweg_load("{\"max_row\": 1}", &none) == THALWEG_INVALID_ARGUMENT, "unknown option");
  expect(none == NULL, "no handle after an error");
  expect(strstr(thalweg_last_error(NULL), "max_row") != NULL, "the message names the option");
  expect(thalweg_load("[", &none) == THALWEG_INVALID_ARGUMENT, "options that are no JSON");
  expect(thalweg_generate(NULL, "{}", &text) == THALWEG_INVALID_ARGUMENT, "no handle");
  expect(thalweg_generate(llm, NULL, &text) == THALWEG_INVALID_ARGUMENT, "no request");
  expect(strstr(thalweg_last_error(llm), "request_json") != NULL, "the message names the argument");
  expect(thalweg_generate(llm, "{\"prompts\": []}", &text) == THALWEG_INVALID_ARGUMENT,
         "no prompt");
  expect(thalweg_stream(llm, "{\"prompt\": \"x\", \"params\": {\"top_p\": 0}}", collect, NULL,
                        NULL) == THALWEG_INVALID_ARGUMENT,
         "a parameter out of range");
  expect(strstr(thalweg_last_error(llm), "top_p") != NULL, "the message names the parameter");
  expect(thalweg_cancel(llm, "nobody") == THALWEG_OK, "unknown ids are ignored");
}

static void check_generate(thalweg_llm* llm) {
  char* results = NULL;
  const char* request =
      "{\"prompts\": [{\"messages\": [{\"role\": \"user\", \"content\": \"What does courage "
      "mean?\"}]},"
      " \"x\"], \"params\": [{\"temperature\": 0, \"max_tokens\": 64}, {\"temperature\": -1}]}";
  expect(thalweg_generate(llm, request, &results) == THALWEG_OK, "a batch");
  expect(results != NULL && strstr(results, "without showing fear") != NULL, "the answer");
  expect(results != NULL && strstr(results, "invalid_argument") != NULL, "the other one's error");
  thalweg_free(results);
}

static void check_streams(thalweg_llm* llm) {
  struct collected whole = {0, 0, 0};
  struct collected cut = {0, 0, 0};
  char* id = NULL;
  expect(thalweg_stream(llm,
                        "{\"prompt\": \"The opposite of\", \"params\": {\"temperature\": 0, "
                        "\"max_tokens\": 8, \"output_kind\": \"delta\"}}",
                        collect, &whole, NULL) == THALWEG_OK,
         "a stream");
  wait_for(&whole);
  expect(whole.calls > 1, "a stream comes in parts");
  expect(thalweg_stream(llm,
                        "{\"prompt\": \"a\", \"params\": {\"max_tokens\": 3000, "
                        "\"ignore_eos\": true, \"output_kind\": \"final_only\"}}",
                        collect, &cut, &id) == THALWEG_OK,
         "a long stream");
  expect(thalweg_cancel(llm, id) == THALWEG_OK, "cancelling");
  wait_for(&cut);
  expect(cut.cancelled == 1, "a cancelled stream ends with that reason");
  thalweg_free(id);
}

static void check_tokens(thalweg_llm* llm) {
  int32_t* ids = NULL;
  size_t count = 0;
  char* text = NULL;
  expect(thalweg_encode(llm, "Hello there", &ids, &count) == THALWEG_OK && count > 1, "encoding");
  expect(thalweg_decode(llm, ids, count, 1, &text) == THALWEG_OK, "decoding");
  expect(text != NULL && strcmp(text, "Hello there") == 0, "there and back");
  thalweg_free(text);
  thalweg_free(ids);
  expect(thalweg_metrics(llm, &text) == THALWEG_OK && strstr(text, "\"requests\"") != NULL,
         "metrics");
  thalweg_free(text);
  expect(thalweg_options(&text) == THALWEG_OK && strstr(text, "\"max-rows\"") != NULL, "options");
  thalweg_free(text);
  thalweg_free(NULL);
}

int main(void) {
  thalweg_llm* llm = NULL;
  expect(thalweg_abi_version() == THALWEG_ABI_VERSION, "the version of the interface");
  expect(strchr(thalweg_version(), '.') != NULL, "the version of the library");
  if (thalweg_load("{\"max_sequences\": 4}", &llm) != THALWEG_OK) {
    fprintf(stderr, "%s\n", thalweg_last_error(NULL));
    return 1;
  }
  check_errors(llm);
  check_generate(llm);
  check_streams(llm);
  check_tokens(llm);
  thalweg_close(llm);
  thalweg_close(NULL);
  return failures == 0 ? 0 : 1;
}
