#include "grammar/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace thalweg::grammar {
namespace {

// Patterns of this file are right by construction; limits do not concern them.
RegexId Pattern(const std::string& pattern, CharacterEncoding encoding, RegexArena* arena) {
  return ParseRegex(pattern, RegexDialect::kWhole, encoding, {}, arena).value();
}

RegexId Ascii(const std::string& pattern, RegexArena* arena) {
  return Pattern(pattern, CharacterEncoding::kUtf8, arena);
}

// --- RFC 3339 ---

std::string DatePattern() {
  const std::string four = "(?:0[48]|[2468][048]|[13579][26])";
  const std::string leap_year = "(?:[0-9]{2}" + four + "|(?:00|" + four + ")00)";
  return "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"
         "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
         leap_year + "-02-29)";
}

// What stands around the two numbers that a leap second ties to each other.
struct Around {
  RegexId front;
  RegexId middle;
  RegexId back;
};

// For each number i of the offset (hour or minute), the number of the local time goes before it.
template <typename Local>
RegexId Tied(int first, int last, const Around& around, RegexArena* arena, Local local) {
  std::vector<RegexId> choices;
  for (int i = first; i <= last; ++i) {
    const RegexId parts[] = {arena->Literal(fmt::format("{:02}", local(i))), around.middle,
                             arena->Literal(fmt::format("{:02}", i)), around.back};
    choices.push_back(arena->Concat(parts));
  }
  return arena->Concat(around.front, arena->Either(choices));
}

// hh:mm:60 with an offset such that it is 23:59:60 UTC. Hours and minutes are each tied to those of
// the offset, and the two ties are intersected: written out there would be 2880 pairs.
RegexId LeapSecond(RegexArena* arena) {
  const std::string second = ":60(?:\\.[0-9]+)?";
  const RegexId after = Ascii(":[0-9]{2}", arena);
  const RegexId before = Ascii("[0-9]{2}:", arena);
  const auto around_hours = [&](const std::string& sign) {
    return Around{kEmptyString, Ascii(":[0-9]{2}" + second + sign, arena), after};
  };
  const auto around_minutes = [&](const std::string& sign) {
    return Around{before, Ascii(second + sign + "[0-9]{2}:", arena), kEmptyString};
  };
  const Around even = {kEmptyString, Ascii(":59" + second + "\\+", arena), arena->Literal(":00")};
  const auto same = [](int hour) { return hour; };
  // The minute past 23:59 ends the hour, unless the offset has minutes of its own.
  const RegexId ahead =
      arena->Both(Tied(0, 23, around_hours("\\+"), arena, same),
                  Tied(1, 59, around_minutes("\\+"), arena, [](int minute) { return minute - 1; }));
  const RegexId behind =
      arena->Both(Tied(0, 23, around_hours("-"), arena, [](int hour) { return 23 - hour; }),
                  Tied(0, 59, around_minutes("-"), arena, [](int minute) { return 59 - minute; }));
  const RegexId on_the_hour = Tied(0, 23, even, arena, [](int hour) { return (hour + 23) % 24; });
  const RegexId zulu = Ascii("23:59" + second + "[Zz]", arena);
  const RegexId all[] = {ahead, behind, on_the_hour, zulu};
  return arena->Either(all);
}

RegexId Time(RegexArena* arena) {
  const std::string clock = "(?:[01][0-9]|2[0-3]):[0-5][0-9]";
  const RegexId usual = Ascii(clock + ":[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-]" + clock + ")", arena);
  return arena->Either(usual, LeapSecond(arena));
}

RegexId Date(RegexArena* arena) { return Ascii(DatePattern(), arena); }

RegexId DateTime(RegexArena* arena) {
  const RegexId parts[] = {Date(arena), Ascii("[Tt]", arena), Time(arena)};
  return arena->Concat(parts);
}

RegexId Duration(RegexArena* arena) {
  const std::string day = "[0-9]+D";
  const std::string month = "[0-9]+M(?:" + day + ")?";
  const std::string year = "[0-9]+Y(?:" + month + ")?";
  const std::string second = "[0-9]+S";
  const std::string minute = "[0-9]+M(?:" + second + ")?";
  const std::string hour = "[0-9]+H(?:" + minute + ")?";
  const std::string time = "T(?:" + hour + "|" + minute + "|" + second + ")";
  const std::string date = "(?:" + day + "|" + month + "|" + year + ")(?:" + time + ")?";
  return Ascii("P(?:" + date + "|" + time + "|[0-9]+W)", arena);
}

// --- names and addresses ---

RegexId Uuid(RegexArena* arena) {
  return Ascii("[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", arena);
}

// Labels with hyphens at the third and fourth place are reserved but for those of IDNA.
RegexId Hostname(RegexArena* arena) {
  const std::string edge = "[0-9A-Za-z]";
  const std::string inner = "[0-9A-Za-z-]";
  const std::string rest = inner + "{0,58}" + edge;
  const std::string label = edge + "(?:(?:" + inner + "{0,2}" + edge + ")?|" + inner +
                            "(?:" + edge + inner + "|-" + edge + ")" + rest + ")|[Xx][Nn]--" + rest;
  const RegexId one = Ascii(label, arena);
  const RegexId more = arena->Repeat(arena->Concat(arena->Literal("."), one), 0, -1);
  return arena->Both(arena->Concat(one, more), Ascii("[-.0-9A-Za-z]{1,253}", arena));
}

std::string Ipv4Pattern() {
  const std::string octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return "(?:" + octet + "\\.){3}" + octet;
}

// RFC 3986 section 3.2.2, which spells out RFC 4291 section 2.2.
std::string Ipv6Pattern() {
  const std::string group = "[0-9A-Fa-f]{1,4}";
  const std::string last = "(?:" + group + ":" + group + "|" + Ipv4Pattern() + ")";
  std::string all = "(?:(?:" + group + ":){6}" + last;
  for (int after = 5; after >= 0; --after) {
    const int before = 5 - after;
    std::string front =
        "(?:(?:" + group + ":){0," + std::to_string(before - 1) + "}" + group + ")?";
    if (before == 0) front = "";
    all += "|" + front + "::(?:" + group + ":){" + std::to_string(after) + "}" + last;
  }
  all += "|(?:(?:" + group + ":){0,5}" + group + ")?::" + group;
  return all + "|(?:(?:" + group + ":){0,6}" + group + ")?::)";
}

RegexId Ipv4(RegexArena* arena) { return Ascii(Ipv4Pattern(), arena); }
RegexId Ipv6(RegexArena* arena) { return Ascii(Ipv6Pattern(), arena); }

RegexId Email(CharacterEncoding encoding, RegexArena* arena) {
  const std::string atom = "[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]+";
  const RegexId dotted = Ascii(atom + "(?:\\." + atom + ")*", arena);
  const RegexId short_dotted = arena->Both(dotted, Ascii("[!-~]{1,64}", arena));
  const RegexId quoted = Pattern(R"("(?:[ !#-\[\]-~]|\\[ -~])*")", encoding, arena);
  const RegexId short_quoted = arena->Both(quoted, Pattern("[ -~]{2,64}", encoding, arena));
  const RegexId address =
      Ascii("\\[(?:" + Ipv4Pattern() + "|IPv6:" + Ipv6Pattern() + ")\\]", arena);
  const RegexId parts[] = {arena->Either(short_dotted, short_quoted), arena->Literal("@"),
                           arena->Either(Hostname(arena), address)};
  return arena->Concat(parts);
}

// --- RFC 3986 and 3987 ---

// The characters that an IRI may hold besides those of a URI, as parts of a class.
constexpr const char* kMoreCharacters =
    "\\x{A0}-\\x{D7FF}\\x{F900}-\\x{FDCF}\\x{FDF0}-\\x{FFEF}\\x{10000}-\\x{1FFFD}"
    "\\x{20000}-\\x{2FFFD}\\x{30000}-\\x{3FFFD}\\x{40000}-\\x{4FFFD}\\x{50000}-\\x{5FFFD}"
    "\\x{60000}-\\x{6FFFD}\\x{70000}-\\x{7FFFD}\\x{80000}-\\x{8FFFD}\\x{90000}-\\x{9FFFD}"
    "\\x{A0000}-\\x{AFFFD}\\x{B0000}-\\x{BFFFD}\\x{C0000}-\\x{CFFFD}\\x{D0000}-\\x{DFFFD}"
    "\\x{E1000}-\\x{EFFFD}";
constexpr const char* kPrivateCharacters =
    "\\x{E000}-\\x{F8FF}\\x{F0000}-\\x{FFFFD}\\x{100000}-\\x{10FFFD}";

// The patterns of a URI, or of an IRI.
class UriPatterns {
 public:
  explicit UriPatterns(bool international)
      : more_(international ? kMoreCharacters : ""),
        private_(international ? kPrivateCharacters : "") {}

  std::string Absolute() const {
    const std::string hier =
        "(?:" + Authority() + "|" + PathAbsolute() + "|" + Segments(Of(":@"), true) + "|)";
    return "[A-Za-z][0-9A-Za-z+.-]*:" + hier + Tail();
  }
  std::string Relative() const {
    const std::string first = Of("@") + "+(?:/" + Of(":@") + "*)*";
    return "(?:" + Authority() + "|" + PathAbsolute() + "|" + first + "|)" + Tail();
  }

 private:
  // One character: unreserved, escaped, a sub-delimiter, or one of `also`.
  std::string Of(const std::string& also) const {
    return "(?:[0-9A-Za-z._~!$&'()*+,;=" + also + more_ + "-]|%[0-9A-Fa-f]{2})";
  }
  std::string Segments(const std::string& character, bool some) const {
    return character + (some ? "+" : "*") + "(?:/" + Of(":@") + "*)*";
  }
  std::string PathAbsolute() const { return "/(?:" + Segments(Of(":@"), true) + ")?"; }
  std::string Authority() const {
    const std::string future = "[vV][0-9A-Fa-f]+\\.[0-9A-Za-z._~!$&'()*+,;=:-]+";
    const std::string literal = "\\[(?:" + Ipv6Pattern() + "|" + future + ")\\]";
    return "//(?:" + Of(":") + "*@)?(?:" + literal + "|" + Of("") + "*)(?::[0-9]*)?(?:/" +
           Of(":@") + "*)*";
  }
  std::string Tail() const {
    return "(?:\\?" + Of(":@/?" + private_) + "*)?(?:#" + Of(":@/?") + "*)?";
  }

  std::string more_;
  std::string private_;
};

RegexId Uri(RegexArena* arena) { return Ascii(UriPatterns(false).Absolute(), arena); }

RegexId UriReference(RegexArena* arena) {
  const UriPatterns patterns(false);
  return arena->Either(Ascii(patterns.Absolute(), arena), Ascii(patterns.Relative(), arena));
}

RegexId Iri(CharacterEncoding encoding, RegexArena* arena) {
  return Pattern(UriPatterns(true).Absolute(), encoding, arena);
}

RegexId IriReference(CharacterEncoding encoding, RegexArena* arena) {
  const UriPatterns patterns(true);
  return arena->Either(Pattern(patterns.Absolute(), encoding, arena),
                       Pattern(patterns.Relative(), encoding, arena));
}

// RFC 6570 section 2.
RegexId UriTemplate(CharacterEncoding encoding, RegexArena* arena) {
  const std::string escaped = "%[0-9A-Fa-f]{2}";
  const std::string literal = std::string("(?:[!#$&(-;=?-\\[\\]_a-z~") + kMoreCharacters +
                              kPrivateCharacters + "]|" + escaped + ")";
  const std::string name_character = "(?:[0-9A-Za-z_]|" + escaped + ")";
  const std::string name = name_character + "(?:\\.?" + name_character + ")*";
  const std::string variable = name + "(?::[1-9][0-9]{0,3}|\\*)?";
  const std::string expression = "\\{[+#./;?&=,!@|]?" + variable + "(?:," + variable + ")*\\}";
  return Pattern("(?:" + literal + "|" + expression + ")*", encoding, arena);
}

// --- RFC 6901 ---

constexpr const char* kPointer = "(?:/(?:[^/~]|~[01])*)*";

RegexId JsonPointer(CharacterEncoding encoding, RegexArena* arena) {
  return Pattern(std::string("(?s:") + kPointer + ")", encoding, arena);
}

RegexId RelativeJsonPointer(CharacterEncoding encoding, RegexArena* arena) {
  return Pattern(std::string("(?s:(?:0|[1-9][0-9]*)(?:#|") + kPointer + "))", encoding, arena);
}

// Formats of ASCII alone do not depend on the encoding.
struct AsciiFormat {
  std::string_view name;
  RegexId (*make)(RegexArena* arena);
};
constexpr AsciiFormat kAsciiFormats[] = {{"date", Date},
                                         {"time", Time},
                                         {"date-time", DateTime},
                                         {"duration", Duration},
                                         {"uuid", Uuid},
                                         {"hostname", Hostname},
                                         {"ipv4", Ipv4},
                                         {"ipv6", Ipv6},
                                         {"uri", Uri},
                                         {"uri-reference", UriReference}};

struct EncodedFormat {
  std::string_view name;
  RegexId (*make)(CharacterEncoding encoding, RegexArena* arena);
};
constexpr EncodedFormat kEncodedFormats[] = {{"email", Email},
                                             {"iri", Iri},
                                             {"iri-reference", IriReference},
                                             {"uri-template", UriTemplate},
                                             {"json-pointer", JsonPointer},
                                             {"relative-json-pointer", RelativeJsonPointer}};

}  // namespace

Result<RegexId> FormatRegex(std::string_view format, CharacterEncoding encoding,
                            RegexArena* arena) {
  for (const AsciiFormat& known : kAsciiFormats) {
    if (known.name == format) return known.make(arena);
  }
  for (const EncodedFormat& known : kEncodedFormats) {
    if (known.name == format) return known.make(encoding, arena);
  }
  return base::Unsupported(
      fmt::format("the format \"{}\" cannot be enforced; leave it out or use a pattern",
                  format.substr(0, 100)));
}

bool KnownFormat(std::string_view format) {
  const auto named = [&](const auto& known) { return known.name == format; };
  return std::ranges::any_of(kAsciiFormats, named) || std::ranges::any_of(kEncodedFormats, named);
}

}  // namespace thalweg::grammar
