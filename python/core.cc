// The compiled half of the Python module: a thin layer over the public C++ interface. The Python
// half (python/thalweg) gives it its shape. The interpreter's lock is given up wherever something
// waits.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <thalweg/llm.h>
#include <thalweg/version.h>

#include <cstdio>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>

#include "convert.h"

namespace thalweg::python {
namespace {

namespace py = pybind11;

// A Python object that may be let go on any thread.
using Held = std::shared_ptr<py::object>;

Held Hold(py::object object) {
  return Held(new py::object(std::move(object)), [](py::object* held) {
    const py::gil_scoped_acquire gil;
    delete held;
  });
}

// Threads of the engine may wait for the interpreter's lock while it ends: nobody may hold it then.
void DeleteUnlocked(LLM* llm) {
  if (PyGILState_Check() == 0) {
    delete llm;
    return;
  }
  const py::gil_scoped_release release;
  delete llm;
}

// Lends both arrays to `function` and takes the views back: nothing may look at them afterwards.
void CallProcessor(const py::object& function, std::span<const int32_t> tokens,
                   std::span<float> logits) {
  const auto rows = static_cast<py::ssize_t>(logits.size());
  const py::memoryview token_view = py::memoryview::from_buffer(
      tokens.data(), {static_cast<py::ssize_t>(tokens.size())}, {py::ssize_t{sizeof(int32_t)}});
  const py::memoryview logit_view =
      py::memoryview::from_buffer(logits.data(), {rows}, {py::ssize_t{sizeof(float)}});
  py::object result = function(token_view, logit_view);
  if (!result.is_none() && !result.is(logit_view)) CopyLogits(result, logits);
  result = py::none();
  token_view.attr("release")();
  logit_view.attr("release")();
}

LogitsProcessor ProcessorOf(py::object function) {
  const Held held = Hold(std::move(function));
  return [held](std::span<const int32_t> tokens, std::span<float> logits) -> std::optional<Error> {
    const py::gil_scoped_acquire gil;
    try {
      CallProcessor(*held, tokens, logits);
      return std::nullopt;
    } catch (const std::exception& error) {
      return Error{ErrorCode::kInvalidArgument, std::string("logits processor: ") + error.what()};
    }
  };
}

// The opaque parameters that Python makes from its own.
struct Params {
  SamplingParams params;

  static Params FromJson(const std::string& json, const std::vector<py::object>& processors) {
    Params out{Unwrap(SamplingParams::FromJson(json))};
    for (const py::object& one : processors)
      out.params.logits_processors.push_back(ProcessorOf(one));
    return out;
  }
};

std::vector<SamplingParams> Plain(const std::vector<Params>& params) {
  std::vector<SamplingParams> out;
  out.reserve(params.size());
  for (const Params& one : params) out.push_back(one.params);
  return out;
}

// Runs between waits: lets Python's signal handlers run, then the progress callback. What either
// raises is kept, and ends the call.
class Watch {
 public:
  explicit Watch(const py::object& callback) : callback_(callback) {}

  bool operator()(const GenerateProgress& progress) {
    const py::gil_scoped_acquire gil;
    if (raised_.has_value()) return false;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (!callback_.is_none())
        callback_(progress.done, progress.total, progress.output_tokens, progress.seconds);
    } catch (py::error_already_set& error) {
      raised_.emplace(std::move(error));
    }
    return !raised_.has_value();
  }

  void Raise() {
    if (raised_.has_value()) throw py::error_already_set(std::move(*raised_));
  }

 private:
  const py::object& callback_;
  std::optional<py::error_already_set> raised_;
};

class Core {
 public:
  // A signal handler that raises ends a download.
  explicit Core(LLMOptions options) {
    const py::none no_callback;
    Watch watch(no_callback);
    options.interrupted = [&watch] { return !watch({}); };
    std::optional<Expected<LLM>> llm;
    {
      const py::gil_scoped_release release;
      llm.emplace(LLM::Load(options));
    }
    watch.Raise();
    llm_ = std::shared_ptr<LLM>(new LLM(Unwrap(std::move(*llm))), DeleteUnlocked);
  }

  // Cancels what is under way; every later call is an error.
  void Close() {
    const py::gil_scoped_release release;
    std::shared_ptr<LLM> llm;
    {
      const std::scoped_lock lock(mutex_);
      llm.swap(llm_);
    }
    if (llm != nullptr) llm->Drain(true);
  }

  ~Core() {
    if (llm_ != nullptr) Close();
  }

  std::shared_ptr<LLM> Get() const {
    const std::scoped_lock lock(mutex_);
    if (llm_ == nullptr)
      throw ErrorException({ErrorCode::kFailedPrecondition, "this LLM has been closed"});
    return llm_;
  }

  py::list Generate(const py::list& prompts, const std::vector<Params>& params,
                    const RequestOptions& request, const py::object& progress) const {
    const std::shared_ptr<LLM> llm = Get();
    const std::vector<Prompt> plain_prompts = PromptsOf(prompts);
    const std::vector<SamplingParams> plain_params = Plain(params);
    Watch watch(progress);
    GenerateOptions options{.request = request,
                            .progress = [&](const GenerateProgress& p) { return watch(p); }};
    std::vector<RequestOutput> outputs;
    {
      const py::gil_scoped_release release;
      outputs = Unwrap(llm->Generate(std::span(plain_prompts), std::span(plain_params), options));
    }
    watch.Raise();
    py::list list;
    for (const RequestOutput& output : outputs) list.append(OutputDict(output));
    return list;
  }

  std::string Submit(const py::object& prompt, const Params& params, const RequestOptions& request,
                     py::object callback) const {
    const std::shared_ptr<LLM> llm = Get();
    const Prompt plain = PromptOf(prompt);
    const Held held = Hold(std::move(callback));
    const auto forward = [held](const RequestOutput& output) {
      const py::gil_scoped_acquire gil;
      try {
        (*held)(OutputDict(output));
      } catch (py::error_already_set& error) {
        error.discard_as_unraisable("thalweg stream callback");
      }
    };
    const py::gil_scoped_release release;
    return Unwrap(llm->Submit(plain, params.params, forward, request));
  }

  void Cancel(const std::string& id) const {
    const std::shared_ptr<LLM> llm = Get();
    const py::gil_scoped_release release;
    llm->Cancel(id);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<LLM> llm_;
};

void BindRequests(py::module_& m) {
  py::class_<Params>(m, "Params")
      .def_static("from_json", &Params::FromJson, py::arg("json"), py::arg("processors"));
  py::class_<RequestOptions>(m, "RequestOptions")
      .def(py::init<>())
      .def_readwrite("request_id", &RequestOptions::request_id)
      .def_readwrite("add_special_tokens", &RequestOptions::add_special_tokens)
      .def_readwrite("parse_special_tokens", &RequestOptions::parse_special_tokens)
      .def_readwrite("priority", &RequestOptions::priority)
      .def_readwrite("cache_salt", &RequestOptions::cache_salt)
      .def_readwrite("prefix_reuse", &RequestOptions::prefix_reuse);
  py::class_<Conversation>(m, "Conversation")
      .def(py::init([](const std::string& json) { return Unwrap(ConversationFromJson(json)); }),
           py::arg("json"));
}

void BindCore(py::module_& m) {
  py::class_<Core>(m, "Core")
      .def(py::init([](const std::string& model, const std::map<std::string, std::string>& options,
                       const std::string& file) {
             return std::make_unique<Core>(
                 LLMOptions{.model = model, .options = options, .option_file = file});
           }),
           py::arg("model"), py::arg("options"), py::arg("option_file"))
      .def("close", &Core::Close)
      .def("generate", &Core::Generate, py::arg("prompts"), py::arg("params"), py::arg("request"),
           py::arg("progress"))
      .def("submit", &Core::Submit, py::arg("prompt"), py::arg("params"), py::arg("request"),
           py::arg("callback"))
      .def("cancel", &Core::Cancel, py::arg("request_id"))
      .def("recommended",
           [](const Core& core) { return RecommendedDict(core.Get()->RecommendedParams()); })
      .def("metrics_json", [](const Core& core) { return core.Get()->MetricsJson(); })
      .def("context_tokens", [](const Core& core) { return core.Get()->context_tokens(); })
      .def(
          "encode",
          [](const Core& core, const std::string& text, const RequestOptions& options) {
            return core.Get()->Encode(text, options);
          },
          py::arg("text"), py::arg("request"))
      .def(
          "encode_chat",
          [](const Core& core, const Conversation& conversation) {
            return Unwrap(core.Get()->EncodeChat(conversation));
          },
          py::arg("conversation"))
      .def(
          "decode",
          [](const Core& core, const py::object& ids, bool skip) {
            return core.Get()->Decode(TokensOf(ids, "token_ids"), skip);
          },
          py::arg("token_ids"), py::arg("skip_special_tokens"));
}

}  // namespace
}  // namespace thalweg::python

PYBIND11_MODULE(_core, m) {
  using namespace thalweg::python;
  m.doc() = "The compiled half of thalweg; use the classes of the package thalweg.";
  RegisterErrors();
  BindRequests(m);
  BindCore(m);
  m.def("version", &thalweg::Version);
  m.def("options", &OptionDicts);
}
