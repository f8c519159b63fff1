// What a user sees of the program: answers on stdout, one clear message and exit code 2 for bad
// input, nothing half done.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>

#include "base/json.h"
#include "tools/test_shell.h"

namespace thalweg::tools {
namespace {

Outcome RunProgram(const std::string& arguments) {
  return RunShell(THALWEG_PROGRAM " " + arguments);
}

void ExpectError(const std::string& arguments, const std::string& message) {
  const Outcome outcome = RunProgram(arguments + " 2>&1 >/dev/null </dev/null");
  EXPECT_EQ(outcome.code, 2) << arguments;
  EXPECT_NE(outcome.text.find(message), std::string::npos) << arguments << "\n" << outcome.text;
  EXPECT_EQ(RunProgram(arguments + " 2>/dev/null </dev/null").text, "") << arguments;
}

const std::string kData = std::string(THALWEG_SOURCE_DIR) + "/tests/data";

std::string PromptFile() {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("thalweg_prompt" + std::to_string(::getpid()));
  std::ofstream(file) << "What does courage mean?";
  return file.string();
}

TEST(Cli, AnswersWithTheShippedCheckpoint) {
  const Outcome outcome = RunProgram("run --temperature 0 'What does courage mean?'");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.text.find(
                "a quality of spirit that enables you to face danger or pain without showing fear"),
            std::string::npos)
      << outcome.text;
  EXPECT_EQ(RunProgram("run --temperature 0 - 2>/dev/null <" + PromptFile()).text, outcome.text);
}

std::string ConversationFile(const std::string& body) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("thalweg_chat" + std::to_string(::getpid()));
  std::ofstream(file) << body;
  return file.string();
}

TEST(Cli, ConversationsOfFiles) {
  const std::string file = ConversationFile(
      R"({"messages": [{"role": "user", "content": "What does courage mean?"}],
          "thinking": {"type": "disabled"}})");
  const Outcome answer = RunProgram("run --temperature 0 --chat " + file);
  EXPECT_EQ(answer.code, 0);
  EXPECT_EQ(answer.text, RunProgram("run --temperature 0 'What does courage mean?'").text);
  const std::string prompt =
      "<｜begin▁of▁sentence｜><｜User｜>What does courage mean?<｜Assistant｜></think>\n";
  EXPECT_EQ(RunProgram("chat-encode --print prompt " + file).text, prompt);
  EXPECT_EQ(RunProgram("chat-encode --print prompt <" + file).text, prompt);
  const base::Json json =
      base::ParseJson(RunProgram("chat-encode --json " + file).text, "output").value();
  EXPECT_EQ(json["prompt"].get<std::string>() + "\n", prompt);
  EXPECT_EQ(json["token_ids"][0], 0);
  ExpectError("chat-encode /nonexistent", "/nonexistent");
  ExpectError("chat-encode --effort ultra " + file, "1..100");
  ExpectError("chat-encode " + ConversationFile(R"([{"role": "user"}])"), "messages[0].content");
  ExpectError("run hi --chat " + file, "--chat is a whole conversation");
}

TEST(Cli, StatisticsAndReasoningStayApartFromTheAnswer) {
  const Outcome plain = RunProgram("run --temperature 0 --stats --think 'Say hello.' 2>/dev/null");
  const Outcome all = RunProgram("run --temperature 0 --stats --think 'Say hello.' 2>&1");
  EXPECT_EQ(plain.code, 0);
  EXPECT_EQ(plain.text.find("tok/s"), std::string::npos);
  EXPECT_NE(all.text.find("tok/s"), std::string::npos);
  EXPECT_NE(all.text.find("logits"), std::string::npos);
}

TEST(Cli, BadInputIsOneMessageAndExitCodeTwo) {
  ExpectError("run ''", "the prompt is empty");
  ExpectError("run", "the prompt is empty");  // standard input is empty and no terminal
  ExpectError("run --model /nonexistent hi", "/nonexistent");
  ExpectError("run --model no-such/model --offline hi", "looked at:");
  ExpectError("run --model-dir /nonexistent hi", "DEEPINFER_HF_MODEL_DIR");
  ExpectError("pull ../x", "model name");
  ExpectError("pull no-such/model --offline", "looked at:");
  ExpectError("pull no-such/model --jobs 0", "jobs");
  ExpectError("pull no-such/model --token-file /nonexistent", "/nonexistent");
  ExpectError("run --temperature -1 hi", "temperature");
  ExpectError("run --top-p 0 hi", "top_p");
  ExpectError("run --keep-tokens 5 hi", "at least 140");
  ExpectError("run --keep-tokens 200 --replay full hi", "--replay is full");
  ExpectError("run --max-tokens 0 hi", "max-tokens is 0");
  ExpectError("run --max-tokens 20000 hi", "--max-tokens is 20000: the context of 16384");
  ExpectError("batch --prefix-exactness bounded /nonexistent /nonexistent", "--seed");
  ExpectError("run --nextn 5 hi", "speculative decoding");
  ExpectError("run --accelerator nvidia hi", "cpu only");
  ExpectError("run --backend cuda hi", "reference, cpu");
  ExpectError("run --effort 0 --think hi", "effort");
  ExpectError("run --file /nonexistent.txt", "/nonexistent.txt");
  ExpectError("score", "exactly one of");
  ExpectError("score --ids 1,x", "x");
  ExpectError("score --ids 0,99999", "vocabulary");
  ExpectError("score --ids 5", "two tokens");
  ExpectError("verify /nonexistent", "/nonexistent");
  ExpectError("inspect /nonexistent", "/nonexistent");
  ExpectError("dump --ids 1", "--out");
  ExpectError("compare /nonexistent /nonexistent", "/nonexistent");
  ExpectError("synth", "--config");
  ExpectError("bench nothing", "nothing");
  ExpectError("bench kernel --op nothing", "moe_ffn");
  ExpectError("bench kernel --op norm --shape 33x64", "multiples of 32");
  ExpectError("bench kernel --op norm --rows 1,,2", "rows");
  ExpectError("bench kernel --op norm --threads -1", "threads");
  ExpectError("bench kernel --op norm --seconds nan", "seconds");
  ExpectError("bench kernel --op norm --context 99999999", "context");
  ExpectError("bench model --batch 0", "batch");
  ExpectError("bench throughput --rate 1 --concurrency 2", "--concurrency");
  ExpectError("bench throughput --json --csv", "--csv");
  ExpectError("bench latency --output-tokens 9:8", "output-tokens");
  ExpectError("bench latency --prompt-text /no/such/file", "/no/such/file");
  ExpectError("bench scheduler --running 0", "running");
  ExpectError("bench model --synthetic --shape nano", "released");
  ExpectError("bench model --synthetic --batch 4096 --layers 1 --experts 6", "smaller --batch");
  ExpectError("bench model --synthetic --layers 40 --experts 384", "do not fit");
}

TEST(Cli, VerifyPassesOnEveryTargetInBothNumerics) {
  const Result<base::Json> kernels = base::ParseJson(RunProgram("inspect kernels --json").text, "");
  ASSERT_TRUE(kernels.ok());
  for (const base::Json& target : (*kernels)[1]["targets"]) {
    if (!target["supported"].get<bool>()) continue;
    for (const std::string numerics : {"exact", "fast"}) {
      for (const std::string folder : {"tiny-a", "tiny-b"}) {
        const Outcome outcome =
            RunProgram("verify --backend cpu --numerics " + numerics + " --cpu-target " +
                       target["name"].get<std::string>() + " " + kData + "/" + folder);
        EXPECT_EQ(outcome.code, 0) << target["name"] << " " << numerics << outcome.text;
      }
    }
  }
}

TEST(Cli, BodiesThatDoNotExistTogetherAreRefused) {
  ExpectError("run --backend reference --numerics fast x", "use --backend cpu");
  ExpectError("run --backend reference --cpu-target generic x", "use --backend cpu");
  ExpectError("run --cpu-target abacus x", "generic");
  ExpectError("run --numerics sloppy x", "one of exact, fast");
  ExpectError("run --repack sometimes x", "one of auto, always, never");
  ExpectError("run --pin maybe x", "one of auto, on, off");
  ExpectError("verify --numerics fast " + kData + "/tiny-a", "use --backend cpu");
}

TEST(Cli, ThreadsPinningAndRepackingChangeNoBit) {
  const std::string run = "run --temperature 0 --max-tokens 4 --stats 'Hello' 2>&1 | grep logits";
  const std::string expected = RunProgram(run).text;
  ASSERT_NE(expected.find("logits"), std::string::npos);
  for (const std::string options : {"--threads 1", "--threads 3 --pin off", "--pin on",
                                    "--repack never", "--repack always", "--cpu-target generic"}) {
    EXPECT_EQ(RunProgram("run " + options + run.substr(3)).text, expected) << options;
  }
}

TEST(Cli, InspectKernelsNamesTheChosenTarget) {
  const Outcome outcome = RunProgram("inspect kernels --json");
  EXPECT_EQ(outcome.code, 0);
  const Result<base::Json> json = base::ParseJson(outcome.text, "kernels");
  ASSERT_TRUE(json.ok());
  int chosen = 0;
  for (const base::Json& target : (*json)[1]["targets"]) {
    EXPECT_EQ(target["supported"].get<bool>(), target["missing"].empty()) << target["name"];
    EXPECT_EQ(target["ops"].size(), 18u);
    chosen += target["chosen"].get<bool>() ? 1 : 0;
  }
  EXPECT_EQ(chosen, 1);
  EXPECT_NE(RunProgram("inspect kernels").text.find("chosen"), std::string::npos);
}

TEST(Cli, PromptLongerThanTheContext) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("thalweg_long_prompt" + std::to_string(::getpid()));
  std::ofstream(file) << std::string(200000, '7');
  ExpectError("run --file " + file.string(), "context of 16384");
  std::filesystem::remove(file);
}

// A signal comes as soon as the answer has begun, or while a model is being loaded.
TEST(Cli, SignalsEndAnAnswerAndSayWhich) {
  const std::filesystem::path out =
      std::filesystem::temp_directory_path() / ("thalweg_cut_answer" + std::to_string(::getpid()));
  const std::string line = THALWEG_PROGRAM " run --raw --temperature 6 --max-tokens 16000 x >" +
                           out.string() + " & p=$!; while [ ! -s " + out.string() +
                           " ]; do sleep 0.01; done; kill -";
  for (const auto& [signal, name, code] :
       {std::tuple("INT", "Ctrl-C", 130), std::tuple("TERM", "SIGTERM", 143)}) {
    std::filesystem::remove(out);
    const Outcome cut = RunShell("exec 2>&1; " + line + signal + " $p; wait $p");
    EXPECT_EQ(cut.code, code) << cut.text;
    EXPECT_NE(cut.text.find(std::string("stopped by ") + name + ": the answer is abandoned after"),
              std::string::npos)
        << cut.text;
  }
  std::filesystem::remove(out);
}

TEST(Cli, ScoreIsMachineReadable) {
  const Outcome outcome = RunProgram("score --json --ids 0,6136,434,617,776 2>/dev/null");
  ASSERT_EQ(outcome.code, 0);
  const Result<base::Json> json = base::ParseJson(outcome.text, "score");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["tokens"], 4);
  EXPECT_GT((*json)["perplexity"].get<double>(), 1.0);
  EXPECT_EQ((*json)["documents"][0]["logprobs"].size(), 4u);
}

TEST(Cli, VerifyPassesOnTheGoldenFolders) {
  for (const std::string folder : {"tiny-a", "tiny-b"}) {
    const Outcome outcome = RunProgram("verify " + kData + "/" + folder);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
  }
}

TEST(Cli, InspectSays890) {
  const Outcome outcome = RunProgram("inspect " + kData + "/released_config.json");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.text.find("890"), std::string::npos);
}

std::string WriteTemporary(const std::string& name, const std::string& text) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("thalweg_" + std::to_string(::getpid()) + name);
  std::ofstream(file) << text;
  return file.string();
}

const std::string kTokenizer = std::string(THALWEG_SOURCE_DIR) + "/models/nano";

std::string PersonSchema() {
  return WriteTemporary("person.json", R"({"type": "object", "properties": {
      "name": {"type": "string", "minLength": 1, "maxLength": 12},
      "age": {"type": "integer", "minimum": 0, "maximum": 150}},
      "required": ["name", "age"], "additionalProperties": false})");
}

TEST(Cli, BoundAnswersAreWhatWasAskedFor) {
  for (const std::string options : {"--temperature 0", "--temperature 1 --seed 3",
                                    "--temperature 2 --seed 4 --think --max-tokens 400"}) {
    const Outcome outcome = RunProgram("run " + options + " --json-schema " + PersonSchema() +
                                       " 'Name a person.' 2>/dev/null");
    if (outcome.code == 1) continue;  // cut, as the next test has it
    ASSERT_EQ(outcome.code, 0) << options;
    const Result<base::Json> json = base::ParseJson(outcome.text, "answer");
    ASSERT_TRUE(json.ok()) << outcome.text;
    EXPECT_TRUE((*json)["name"].is_string() && (*json)["age"] <= 150) << outcome.text;
  }
  const Outcome regex =
      RunProgram("run --temperature 1 --regex '(yes|no)[.!]' 'Is it?' 2>/dev/null");
  EXPECT_EQ(regex.code, 0);
  EXPECT_TRUE(regex.text == "yes.\n" || regex.text == "no.\n" || regex.text == "yes!\n" ||
              regex.text == "no!\n")
      << regex.text;
  const std::string grammar = WriteTemporary("sum.gbnf", "root ::= [0-9] (\"+\" [0-9]){2}\n");
  EXPECT_EQ(RunProgram("run --temperature 1 --ebnf " + grammar + " 'Sum?' 2>/dev/null").text.size(),
            6u);
}

TEST(Cli, ABoundAnswerThatIsCutSaysSo) {
  const Outcome outcome = RunProgram("run --temperature 0 --max-tokens 3 --json-schema " +
                                     PersonSchema() + " 'x' 2>&1");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.text.find("cut after 3 tokens"), std::string::npos) << outcome.text;
}

Outcome CheckGrammar(const std::string& text, const std::string& options) {
  return RunProgram("grammar check --tokenizer " + kTokenizer + " " + options + " --text " +
                    WriteTemporary("text.txt", text));
}

TEST(Cli, GrammarCheckSaysWhereAndWhatMightStandThere) {
  const std::string schema = "--json-schema " + PersonSchema();
  EXPECT_EQ(CheckGrammar(R"({"name": "Ann", "age": 15})", schema).code, 0);
  const Outcome rejected = CheckGrammar(R"({"name": "Ann", "age": 151})", schema);
  EXPECT_EQ(rejected.code, 1);
  EXPECT_NE(rejected.text.find("rejected at byte 25"), std::string::npos) << rejected.text;
  const Outcome json = CheckGrammar(R"({"name": "Ann", "ag)", schema + " --json");
  EXPECT_EQ(json.code, 3);
  const Result<base::Json> verdict = base::ParseJson(json.text, "verdict");
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ((*verdict)["verdict"], "incomplete");
  EXPECT_EQ((*verdict)["at_byte"], 19);
  EXPECT_EQ((*verdict)["allowed_bytes"], base::Json::array({'e'}));
  EXPECT_EQ(CheckGrammar("aab", "--regex 'a+b'").code, 0);
  EXPECT_EQ(CheckGrammar("aab", "--regex 'a+c'").code, 1);
}

TEST(Cli, GrammarBenchCountsVerdicts) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("thalweg_grammar_bench" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "right.json")
      << R"({"schema": {"type": "integer"}, "tests": [{"valid": true, "data": 5},
                                                      {"valid": false, "data": "5"}]})";
  std::ofstream(folder / "wrong.json")
      << R"({"schema": {"enum": ["é", 1.5]}, "tests": [{"valid": false, "data": "é"},
                                                       {"valid": true, "data": 2}]})";
  std::ofstream(folder / "unsupported.json") << R"({"schema": {"type": 7}, "tests": []})";
  const Outcome outcome = RunProgram("grammar bench " + folder.string() + " --json - --tokenizer " +
                                     kTokenizer + "/tokenizer.json");
  EXPECT_EQ(outcome.code, 1);  // of an instance that its file calls invalid
  const Result<base::Json> json = base::ParseJson(outcome.text, "report");
  ASSERT_TRUE(json.ok()) << outcome.text;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, int>>{{"schemas", 3},
                                                {"passed", 1},
                                                {"compile_errors", 1},
                                                {"valid_refused", 1},
                                                {"invalid_accepted", 1}})
    EXPECT_EQ((*json)[name], value) << name;
  EXPECT_EQ((*json)["failures"].size(), 3u);
  EXPECT_GT((*json)["mask_us"]["p99.9"], 0.0);
  std::filesystem::remove_all(folder);
}

TEST(Cli, ConstraintsThatMakeNoSense) {
  const std::string bad = WriteTemporary("bad.json", "{\"type\": 5}");
  ExpectError("run --json-schema " + bad + " x", "type");
  ExpectError("run --json-schema /nonexistent x", "/nonexistent");
  ExpectError("run --regex '(' x", "regular expression, byte 0");
  ExpectError("run --regex a --ebnf b x", "--regex and --ebnf");
  ExpectError("run --regex a --any-order x", "--any-order");
  ExpectError("run --regex a --whitespace compact x", "--whitespace");
  ExpectError("grammar check --regex a --text -", "--tokenizer");
  ExpectError("grammar check --tokenizer " + kTokenizer + " --text /dev/null", "--json-schema");
  ExpectError("grammar check --tokenizer " + kTokenizer + " --regex a", "--text");
  ExpectError("grammar bench /nonexistent --tokenizer " + kTokenizer, "/nonexistent");
}

TEST(Cli, HelpAndVersion) {
  for (const std::string command :
       {"", "grammar", "grammar check", "grammar bench", "run", "batch", "pull", "shift", "score",
        "verify", "dump", "compare", "inspect", "synth", "bench"}) {
    EXPECT_EQ(RunProgram(command + " --help").code, 0) << command;
  }
  EXPECT_EQ(RunProgram("--version").code, 0);
  EXPECT_EQ(RunProgram("nonsense 2>/dev/null").code, 2);
}

}  // namespace
}  // namespace thalweg::tools
