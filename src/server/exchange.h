// One request being answered: from the parsed HTTP message to the last byte handed to the
// connection.
//
// An exchange lives on the I/O thread of its connection. Its handler may run on a worker;
// increments of the model come from the engine's thread; both arrive through the I/O thread's
// mailbox, in order.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/access_log.h"
#include "server/admission.h"
#include "server/mailbox.h"
#include "server/reply.h"
#include "server/router.h"

namespace thalweg::server {

struct Services;

// Where a response goes: a connection, or a test.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void Respond(HttpResponse response) = 0;
  virtual void BeginStream(HttpResponse head) = 0;
  // Events; sent when Flush is called.
  virtual void Write(std::string_view events) = 0;
  virtual void Flush() = 0;
  virtual void EndStream() = 0;
};

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Services* services, Mailbox* mailbox, Responder* responder, Route route,
           HttpRequest request);

  // Runs the handler, here or on a worker, and asks the model.
  void Start(Admission::Ticket ticket);
  // On the I/O thread: an increment of the `request`-th request.
  void Take(size_t request, const Delta& delta);
  // The client is gone: what the model does for it ends, nothing is written any more.
  void Abandon();
  // A comment, when the stream has begun.
  void KeepAlive();

  const RequestRecord& record() const { return record_; }
  const HttpRequest& request() const { return request_; }

 private:
  void Work(bool inline_work);
  void Deliver(bool inline_work, std::function<void()> task);
  void SubmitLater(std::vector<ModelRequest> requests);
  void Submit(bool inline_work, std::vector<ModelRequest> requests);
  StreamCallback CallbackOf(size_t request);
  void Adopt(Generation generation);
  void OnAccepted();
  void OnRefused(const ApiError& error);
  void Fail(const ApiError& error);
  void BeginStreamOnce();
  bool AllFinished() const;
  void StopSatisfied(size_t request, const Delta& delta);
  void TakeFailure(size_t request, const Delta& delta);
  void FinishWhenComplete();
  void CancelUnfinished();
  void Note(size_t request, const Delta& delta);

  Services* services_;
  Mailbox* mailbox_;
  Responder* responder_;  // null: the client is gone, or has its whole answer
  Route route_;
  HttpRequest request_;
  RequestRecord record_;
  Admission::Ticket ticket_;
  std::atomic<bool> abandoned_ = false;

  struct Part {
    std::string id;
    bool finished = false;  // the model says nothing more
    bool cancelled = false;
    std::vector<double> last_token_at;  // [n], for the time between tokens
    std::vector<int64_t> tokens;        // [n], so far
    std::vector<bool> stopped;          // [n], ended because the answer is complete
  };
  std::vector<Part> parts_;
  std::unique_ptr<Reply> reply_;
  bool stream_ = false;
  bool accepted_ = false;
  bool began_ = false;  // the head of the stream went out
  std::string text_;    // reused for events
};

}  // namespace thalweg::server
