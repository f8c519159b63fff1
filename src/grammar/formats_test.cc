// Property: a format accepts exactly what its RFC does. Dates and times are compared with the
// calendar, addresses with inet_pton, the others with examples from the RFCs.
#include "grammar/formats.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/test_draws.h"

namespace thalweg::grammar {
namespace {

class Format {
 public:
  explicit Format(const char* name, CharacterEncoding encoding = CharacterEncoding::kUtf8)
      : id_(FormatRegex(name, encoding, &arena_).value()) {}
  bool Has(std::string_view text) { return arena_.Matches(id_, text); }

 private:
  RegexArena arena_;
  RegexId id_;
};

TEST(Formats, DatesAreThoseOfTheCalendar) {
  Format date("date");
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  for (const int year : {0, 4, 100, 400, 1900, 1996, 2000, 2023, 2024, 2100, 2400, 9999}) {
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    for (int month = 0; month <= 13; ++month) {
      for (int day = 0; day <= 32; ++day) {
        const bool real = month >= 1 && month <= 12;
        const int last = real ? kDays[month - 1] + (month == 2 && leap ? 1 : 0) : 0;
        const std::string text = fmt::format("{:04}-{:02}-{:02}", year, month, day);
        ASSERT_EQ(date.Has(text), real && day >= 1 && day <= last) << text;
      }
    }
  }
  for (const char* text : {"2020-1-01", "20-01-01", "2020-01-01 ", "2020/01/01", ""}) {
    EXPECT_FALSE(date.Has(text)) << text;
  }
}

TEST(Formats, TimesAreThoseOfTheClock) {
  Format time("time");
  for (int hour = 0; hour <= 24; ++hour) {
    for (int minute = 0; minute <= 60; ++minute) {
      const std::string text = fmt::format("{:02}:{:02}", hour, minute);
      const bool real = hour < 24 && minute < 60;
      ASSERT_EQ(time.Has(text + ":59.5z"), real) << text;
      ASSERT_EQ(time.Has("12:00:00+" + text), real) << text;
      ASSERT_EQ(time.Has("12:00:00.123456-" + text), real) << text;
      ASSERT_FALSE(time.Has(text + ":61Z"));
      ASSERT_FALSE(time.Has(text + ":00"));
    }
  }
}

TEST(Formats, ALeapSecondIsWhereItIsMidnightInUtc) {
  Format time("time");
  for (int local = 0; local < 1440; ++local) {
    const std::string clock = fmt::format("{:02}:{:02}:60", local / 60, local % 60);
    EXPECT_EQ(time.Has(clock + "Z"), local == 1439);
    for (int offset = -1439; offset < 1440; offset += 7) {
      const int minutes = offset < 0 ? -offset : offset;
      const std::string text = fmt::format("{}{}{}{:02}:{:02}", clock, local % 3 == 0 ? ".9" : "",
                                           offset < 0 ? "-" : "+", minutes / 60, minutes % 60);
      ASSERT_EQ(time.Has(text), (local - offset + 2880) % 1440 == 1439) << text;
    }
  }
}

TEST(Formats, ADateTimeIsADateAndATime) {
  Format both("date-time");
  EXPECT_TRUE(both.Has("1963-06-19T08:30:06.283185Z"));
  EXPECT_TRUE(both.Has("1963-06-19t08:30:06.283185z"));
  EXPECT_TRUE(both.Has("1998-12-31T15:59:60.123-08:00"));
  EXPECT_FALSE(both.Has("1998-12-31T15:58:60-08:00"));
  EXPECT_FALSE(both.Has("1963-06-19 08:30:06Z"));
  EXPECT_FALSE(both.Has("1963-06-19T08:30:06"));
}

std::string RandomAddress(Draws* draws) {
  const char* const parts[] = {"1",   "::",  ":",       "f",  "ffff", "12345", "0",  ".",
                               "255", "256", "1.2.3.4", "00", "g",    ":a",    "b:", "01"};
  std::string all;
  for (uint32_t i = 1 + draws->Below(16); i > 0; --i) all += parts[draws->Below(16)];
  return all;
}

TEST(Formats, AddressesAreThoseOfInetPton) {
  Format ipv4("ipv4");
  Format ipv6("ipv6");
  unsigned char buffer[16];
  int accepted = 0;
  const auto check = [&](const std::string& text) {
    const bool four = inet_pton(AF_INET, text.c_str(), buffer) == 1;
    const bool six = inet_pton(AF_INET6, text.c_str(), buffer) == 1;
    ASSERT_EQ(ipv4.Has(text), four) << text;
    ASSERT_EQ(ipv6.Has(text), six) << text;
    accepted += four || six ? 1 : 0;
  };
  Draws draws(5);
  for (int i = 0; i < 100000; ++i) check(RandomAddress(&draws));
  for (int groups = 0; groups < 10; ++groups) {
    for (int at = -1; at <= groups; ++at) {
      std::string text;
      for (int g = 0; g < groups; ++g) {
        text += g == at ? "::" : (g > 0 ? ":" : "");
        text += "a" + std::to_string(g);
      }
      check(at == groups ? text + "::" : text);
      check(text + ":1.2.3.4");
    }
  }
  EXPECT_GT(accepted, 300);
}

TEST(Formats, LongNamesAreRefused) {
  Format host("hostname");
  const std::string label(63, 'a');
  EXPECT_TRUE(host.Has(label));
  EXPECT_FALSE(host.Has(label + "a"));
  const std::string three = label + "." + label + "." + label + ".";
  EXPECT_TRUE(host.Has(three + std::string(61, 'b')));
  EXPECT_FALSE(host.Has(three + std::string(62, 'b')));
  Format email("email");
  EXPECT_TRUE(email.Has(std::string(64, 'a') + "@example.com"));
  EXPECT_FALSE(email.Has(std::string(65, 'a') + "@example.com"));
  EXPECT_FALSE(email.Has("\"" + std::string(63, 'a') + "\"@example.com"));
}

struct Examples {
  const char* format;
  std::vector<std::string> in;
  std::vector<std::string> out;
};

TEST(Formats, ExamplesOfTheRfcs) {
  const Examples all[] = {
      {"duration",
       {"P4DT12H30M5S", "P4Y", "P1Y2M3D", "PT0S", "P1M", "PT1M", "PT36H", "P2W", "P1DT1S"},
       {"", "P", "PT", "P1YT", "P1Y2D", "P1D2H", "P2D1Y", "P1W2D", "1D", "PT1H2S", "P1.5D"}},
      {"uuid",
       {"2EB8AA08-aa98-11EA-B4AA-73B441D16380", "00000000-0000-0000-0000-000000000000"},
       {"2eb8aa08-aa98-11ea-b4aa-73b441d1638", "2eb8aa08aa9811eab4aa73b441d16380",
        "2eb8aa08-aa98-11ea-b4ga-73b441d16380", "2eb8-aa08-aa98-11ea-b4aa73b44-1d16380"}},
      {"hostname",
       {"www.example.com", "a", "xn--4gbwdl.xn--wgbh1c", "1-2.3", "a-b", "ab-c", "abc-d"},
       {"", "-a", "a-", "a..b", ".", "a_b", "a b", "aa--b", "a.", "\xC3\xA9"}},
      {"email",
       {"joe.bloggs@example.com", "te~st@example.com", "\"joe bloggs\"@example.com",
        "\"joe..\\\"@\"@a.b", "a@[127.0.0.1]", "a@[IPv6:::1]"},
       {"2962", ".test@example.com", "test.@example.com", "te..st@example.com", "a@b=c",
        "a@[127.0.0.300]", "\"a@b", "a@", "@b"}},
      {"uri",
       {"http://foo.bar/?baz=qux#quux", "ftp://ftp.is.co.za/rfc/rfc1808.txt", "urn:a:b",
        "ldap://[2001:db8::7]/c=GB?objectClass?one", "mailto:John.Doe@example.com",
        "http://-.~_!$&'()*+,;=:%40:80%2f::::::@example.com", "tel:+1-816-555-1212", "x:", "x:/",
        "telnet://192.0.2.16:80/", "http://[v1.fe80:a]/"},
       {"//foo.bar/?baz", "/abc", "abc", "http:// shouldfail.com", ":// should fail", "a:\\b",
        "bar,baz:foo", "http://a/<b>", "http://a/%2", "http://[::1", "1a:b", "http://a/#b#c", ""}},
      {"uri-reference",
       {"http://foo.bar/?baz=qux#quux", "//foo.bar/", "/abc", "abc", "", "#frag", "../a?b",
        "a/b:c"},
       {"\\\\WINDOWS\\fileshare", "#frag\\ment", "a b", "1:b", "a%b"}},
      {"iri",
       {"http://\xC6\x92\xC3\xB8\xC3\xB8.com/?\xCE\xB1#\xCE\xB2", "http://a"},
       {"/\xCE\xB1", "a b"}},
      {"iri-reference", {"/\xCE\xB1", "#\xCE\xB1"}, {"\\\xCE\xB1", "#\xCE\xB1\\"}},
      {"uri-template",
       {"http://example.com/dictionary/{term:1}/{term}", "{+x,hello,y}", "{/list*}{?a.b}", ""},
       {"http://example.com/{term:1}/{term", "}", "{}", "{a b}", "{x:0}", "a b", "\""}},
      {"json-pointer",
       {"", "/foo/0", "/", "/a~1b/c%d", "/ /m~0n", "/\xC3\xA9\"\\\n"},
       {"a", "/foo/bar~", "/~2", "#/a", "0"}},
      {"relative-json-pointer",
       {"1", "0/foo/bar", "2/0/baz", "0#", "10/", "1\x2F~0"},
       {"/foo", "-1/foo", "+1/a", "0##", "01/a", "01#", "", "120~"}},
  };
  for (const Examples& examples : all) {
    Format format(examples.format);
    for (const auto& text : examples.in) EXPECT_TRUE(format.Has(text)) << examples.format << text;
    for (const auto& text : examples.out) EXPECT_FALSE(format.Has(text)) << examples.format << text;
  }
}

TEST(Formats, InsideAJsonStringWhatJsonEscapesIsEscaped) {
  Format email("email", CharacterEncoding::kJsonString);
  EXPECT_TRUE(email.Has("\\\"joe bloggs\\\"@example.com"));
  EXPECT_FALSE(email.Has("\"joe bloggs\"@example.com"));
  Format pointer("json-pointer", CharacterEncoding::kJsonString);
  EXPECT_TRUE(pointer.Has("/a\\n\\\"\\u00e9"));
  EXPECT_FALSE(pointer.Has("/a\n"));
  Format uri("uri", CharacterEncoding::kJsonString);
  EXPECT_TRUE(uri.Has("http://a/b"));
}

TEST(Formats, WhatCannotBeEnforcedIsRefused) {
  RegexArena arena;
  for (const char* name : {"idn-hostname", "idn-email", "regex", "no-such-format", ""}) {
    const auto made = FormatRegex(name, CharacterEncoding::kUtf8, &arena);
    EXPECT_EQ(made.status().code(), base::Code::kUnsupported) << name;
    EXPECT_FALSE(KnownFormat(name));
  }
  EXPECT_TRUE(KnownFormat("date"));
}

}  // namespace
}  // namespace thalweg::grammar
