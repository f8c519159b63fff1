// `thalweg bench serve`: a server under an offered load, as its clients see it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "tools/bench/load.h"
#include "tools/bench/report.h"

namespace thalweg::tools::bench {

struct ServeTarget {
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string api_key = {};  // empty: none is sent
  bool stream = true;
  // > 0: answers are of a script that is `stamped` and has this delay (docs/server.md).
  double pace_s = 0;
};

// http://HOST:PORT, with an IP address or localhost. Errors name --url.
Result<ServeTarget> ParseTarget(const std::string& url);

// One request, as it went. Seconds after the start of the run.
struct ServeSample {
  double due = 0;    // when it was to be sent: open loop, whatever is under way
  double first = 0;  // its first token came; 0: none did
  double end = 0;
  int64_t tokens = 0;             // that the server says it made
  std::vector<double> gaps = {};  // between events with text
  std::vector<double> late = {};  // of events, with a pace: since the server's model had it
  std::string error = {};         // empty: it succeeded
};

// Sends the load over HTTP and waits for every answer. The prompts are token ids. Connections are
// kept and used again.
Result<std::vector<ServeSample>> SendLoad(const ServeTarget& target, const LoadOptions& options,
                                          const std::vector<LoadRequest>& load);

// Requests, errors and tokens a second; percentiles of the time to the first token, between tokens
// and to the end, all counted from the moment a request was due; with a pace, those of the time
// that the server and the way here added to each event.
std::vector<Figure> ServeFigures(const std::vector<ServeSample>& samples);
// Errors by their text.
std::map<std::string, int64_t> ServeErrors(const std::vector<ServeSample>& samples);

// NAME.csv with a line for each request, and a script with which gnuplot draws NAME.svg of it.
std::string ServeCsv(const std::vector<ServeSample>& samples);
std::string ServePlot(const std::string& name);

std::vector<base::OptionRow> ServeRows();
// The whole command.
Status BenchServeCommand(const base::OptionValues& values);

}  // namespace thalweg::tools::bench
