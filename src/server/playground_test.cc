// The chat page comes whole and alone: every part that the page and its scripts name is served, of
// the right type, nothing names another server, and it can be switched off.
#include "server/playground.h"

#include <gtest/gtest.h>

#include <regex>

#include "server/test_server.h"

namespace thalweg::server {
namespace {

constexpr std::string_view kScript = R"({"answers": [{"pieces": ["Hello"]}]})";

// What a file names: src and href of the page, imports of scripts.
std::vector<std::string> NamedIn(const std::string& text) {
  static const std::regex kNames(R"re((?:src|href)="playground/([^"]+)"|from "\./([^"]+)")re");
  std::vector<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), kNames), end; at != end; ++at) {
    names.push_back((*at)[1].matched ? (*at)[1] : (*at)[2]);
  }
  return names;
}

TEST(Playground, EveryPartThatIsNamedIsServed) {
  TestServer server(kScript);
  std::vector<std::string> open = NamedIn(server.Get("/").body);
  EXPECT_GE(open.size(), 3u);
  std::map<std::string, TestAnswer> seen;
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    if (seen.contains(name)) continue;
    TestAnswer& part = seen[name] = server.Get("/playground/" + name);
    EXPECT_EQ(part.status, 200) << name;
    for (const std::string& inner : NamedIn(part.body)) open.push_back(inner);
  }
  EXPECT_EQ(seen.size() + 1, PlaygroundFiles().size());
  EXPECT_EQ(seen["main.js"].headers["content-type"], "text/javascript; charset=utf-8");
  EXPECT_EQ(seen["style.css"].headers["content-type"], "text/css; charset=utf-8");
}

TEST(Playground, ThePageForbidsItselfAllOthers) {
  TestServer server(kScript);
  TestAnswer page = server.Get("/");
  EXPECT_EQ(page.headers["content-type"], "text/html; charset=utf-8");
  EXPECT_NE(page.headers["content-security-policy"].find("default-src 'none'"), std::string::npos);
  static const std::regex kNamespace("http://www\\.w3\\.org/2000/svg");
  for (const EmbeddedFile& file : PlaygroundFiles()) {
    const std::string text = std::regex_replace(std::string(file.bytes), kNamespace, "");
    EXPECT_EQ(text.find("://"), std::string::npos) << file.name;
  }
}

TEST(Playground, OtherNamesAndAPageThatIsOffAreNotFound) {
  TestServer server(kScript);
  for (const char* path : {"/playground/", "/playground/index.htm", "/playground/../index.html"})
    EXPECT_EQ(server.Get(path).status, 404) << path;
  ServerOptions options = TestServer::Options();
  options.playground = false;
  TestServer off(kScript, options);
  EXPECT_EQ(off.Get("/").status, 404);
  EXPECT_EQ(off.Get("/playground/main.js").status, 404);
}

}  // namespace
}  // namespace thalweg::server
