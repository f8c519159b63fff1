#include "hub/transfer.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <ctime>

#include "base/check.h"
#include "hub/limits.h"

namespace thalweg::hub {
namespace {

constexpr long kConnectSeconds = 20;

template <typename T>
std::optional<T> ParseWhole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view Trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// "bytes 100-199/200" begins at 100.
std::optional<uint64_t> RangeBegin(std::string_view value) {
  if (!value.starts_with("bytes ")) return std::nullopt;
  value.remove_prefix(6);
  return ParseWhole<uint64_t>(value.substr(0, value.find('-')));
}

// Seconds, or an HTTP date (RFC 9110 10.2.3).
std::optional<int64_t> RetrySeconds(const std::string& value) {
  if (const auto seconds = ParseWhole<int64_t>(value)) return seconds;
  const time_t when = curl_getdate(value.c_str(), nullptr);
  if (when < 0) return std::nullopt;
  return std::max<int64_t>(0, when - std::time(nullptr));
}

// Text for people: a server must not move their cursor.
std::string Printable(std::string_view text) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return out;
}

void InitCurl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  TW_CHECK_EQ(static_cast<int>(code), static_cast<int>(CURLE_OK));
}

}  // namespace

void AddHeaderLine(std::string_view line, AnswerHead* head) {
  if (line.starts_with("HTTP/")) {
    *head = {};
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || line.size() > kMaxHeaderValueBytes) return;
  const std::string name = Lower(line.substr(0, colon));
  const std::string value(Trim(line.substr(colon + 1)));
  if (name == "content-length") head->content_length = ParseWhole<uint64_t>(value);
  if (name == "content-range") head->range_begin = RangeBegin(value);
  if (name == "retry-after") head->retry_after_seconds = RetrySeconds(value);
  if (name == "x-error-code") head->error_code = Printable(value);
  if (name == "x-error-message") head->error_message = Printable(value);
}

struct Transfer::State {
  TransferRequest request;
  TakeBytes take;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  std::array<char, CURL_ERROR_SIZE> error = {};
  AnswerHead head = {};
  std::string error_body = {};
  bool stopped = false;
  bool finished = false;
  CURLcode code = CURLE_OK;

  static size_t OnHeader(char* data, size_t size, size_t count, void* self);
  static size_t OnBody(char* data, size_t size, size_t count, void* self);
  template <typename T>
  void Set(CURLoption option, T value) {
    const CURLcode set = curl_easy_setopt(easy, option, value);
    TW_CHECK_EQ(static_cast<int>(set), static_cast<int>(CURLE_OK));
  }
  void SetCallbacks();
  void SetAddress();
  void SetRules();
};

size_t Transfer::State::OnHeader(char* data, size_t size, size_t count, void* self) {
  auto* state = static_cast<State*>(self);
  AddHeaderLine({data, size * count}, &state->head);
  curl_easy_getinfo(state->easy, CURLINFO_RESPONSE_CODE, &state->head.status);
  return size * count;
}

size_t Transfer::State::OnBody(char* data, size_t size, size_t count, void* self) {
  auto* state = static_cast<State*>(self);
  const std::string_view bytes(data, size * count);
  curl_easy_getinfo(state->easy, CURLINFO_RESPONSE_CODE, &state->head.status);
  if (state->head.status != 200 && state->head.status != 206) {
    const size_t room = kMaxErrorBodyBytes - std::min(kMaxErrorBodyBytes, state->error_body.size());
    state->error_body += Printable(bytes.substr(0, room));
    return room > 0 ? bytes.size() : 0;
  }
  if (state->take(state->head, bytes)) return bytes.size();
  state->stopped = true;
  return 0;
}

void Transfer::State::SetCallbacks() {
  Set(CURLOPT_ERRORBUFFER, error.data());
  Set(CURLOPT_PRIVATE, static_cast<void*>(nullptr));
  Set(CURLOPT_HEADERFUNCTION, &State::OnHeader);
  Set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  Set(CURLOPT_WRITEFUNCTION, &State::OnBody);
  Set(CURLOPT_WRITEDATA, static_cast<void*>(this));
}

void Transfer::State::SetAddress() {
  Set(CURLOPT_URL, request.url.c_str());
  if (!request.token.empty()) {
    headers =
        curl_slist_append(headers, fmt::format("Authorization: Bearer {}", request.token).c_str());
    TW_CHECK(headers != nullptr);
    Set(CURLOPT_HTTPHEADER, headers);
  }
  if (request.begin > 0) Set(CURLOPT_RANGE, fmt::format("{}-", request.begin).c_str());
}

// Redirects stay on the web, and on TLS once there. HTTP/1.1, because parallel files are faster on
// connections of their own than as streams of one. The body is wanted as stored, so no encoding.
void Transfer::State::SetRules() {
  const bool tls = request.url.starts_with("https://");
  Set(CURLOPT_PROTOCOLS_STR, "http,https");
  Set(CURLOPT_REDIR_PROTOCOLS_STR, tls ? "https" : "http,https");
  Set(CURLOPT_FOLLOWLOCATION, 1L);
  Set(CURLOPT_MAXREDIRS, kMaxRedirects);
  Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  Set(CURLOPT_USERAGENT, "thalweg/" THALWEG_VERSION);
  Set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  Set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  Set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_seconds));
  Set(CURLOPT_NOSIGNAL, 1L);
  Set(CURLOPT_BUFFERSIZE, 256L << 10);
}

Transfer::Transfer(TransferRequest request, TakeBytes take) : state_(std::make_unique<State>()) {
  InitCurl();
  state_->request = std::move(request);
  state_->take = std::move(take);
  state_->easy = curl_easy_init();
  TW_CHECK(state_->easy != nullptr);
  state_->SetCallbacks();
  state_->SetAddress();
  state_->SetRules();
  state_->Set(CURLOPT_PRIVATE, static_cast<void*>(this));
}

Transfer::~Transfer() {
  curl_easy_cleanup(state_->easy);
  curl_slist_free_all(state_->headers);
}

const AnswerHead& Transfer::head() const { return state_->head; }
const std::string& Transfer::error_body() const { return state_->error_body; }
bool Transfer::finished() const { return state_->finished; }
int Transfer::curl_code() const { return static_cast<int>(state_->code); }
bool Transfer::taker_stopped() const { return state_->stopped; }

std::string Transfer::transport_error() const {
  if (state_->error[0] != '\0') return Printable(state_->error.data());
  return curl_easy_strerror(state_->code);
}

std::string Transfer::host() const {
  const std::string& url = state_->request.url;
  const size_t begin = url.find("://");
  if (begin == std::string::npos) return url;
  return url.substr(begin + 3, url.find('/', begin + 3) - begin - 3);
}

struct TransferLoop::State {
  CURLM* multi = nullptr;
  std::vector<Transfer*> transfers = {};
};

TransferLoop::TransferLoop() : state_(std::make_unique<State>()) {
  InitCurl();
  state_->multi = curl_multi_init();
  TW_CHECK(state_->multi != nullptr);
}

TransferLoop::~TransferLoop() {
  while (!state_->transfers.empty()) Remove(state_->transfers.back());
  curl_multi_cleanup(state_->multi);
}

void TransferLoop::Add(Transfer* transfer) {
  TW_CHECK_EQ(static_cast<int>(curl_multi_add_handle(state_->multi, transfer->state_->easy)), 0);
  state_->transfers.push_back(transfer);
}

void TransferLoop::Remove(Transfer* transfer) {
  TW_CHECK_EQ(static_cast<int>(curl_multi_remove_handle(state_->multi, transfer->state_->easy)), 0);
  std::erase(state_->transfers, transfer);
}

std::vector<Transfer*> TransferLoop::Step(int wait_ms) {
  int running = 0;
  curl_multi_perform(state_->multi, &running);
  std::vector<Transfer*> finished;
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(state_->multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* pointer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &pointer);
    auto* transfer = reinterpret_cast<Transfer*>(pointer);
    transfer->state_->code = message->data.result;
    transfer->state_->finished = true;
    finished.push_back(transfer);
  }
  for (Transfer* transfer : finished) Remove(transfer);
  if (finished.empty()) curl_multi_poll(state_->multi, nullptr, 0, wait_ms, nullptr);
  return finished;
}

}  // namespace thalweg::hub
