// Tests files that are designed to break a reader, such as deeply nested ones: each causes one clear error, quickly.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "config/document/document.hpp"
#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(limits)

using namespace troupe::config;

namespace {

std::string repeated(const std::string& piece, size_t times) {
  std::string out;
  out.reserve(piece.size() * times);
  for (size_t i = 0; i < times; ++i) out += piece;
  return out;
}

std::string in(const std::string& name, const std::string& text) { return errors_of(text, {}, name); }

}  // namespace

BOOST_AUTO_TEST_CASE(nesting_beyond_64_is_refused) {
  for (const std::string name : {"j.yaml", "j.json"}) {
    BOOST_TEST_INFO_SCOPE(name);
    BOOST_TEST(in(name, repeated("[", 64) + repeated("]", 64))
                   .starts_with(name + ":1:1: error: wanted a mapping of keys to values, got [[["));
    BOOST_TEST(in(name, repeated("[", 65) + repeated("]", 65)) ==
               name + ":1:65: error: wanted at most 64 levels of nesting\n");
    BOOST_TEST(in(name, repeated("[\n", 100)) == name + ":65:1: error: wanted at most 64 levels of nesting\n");
    BOOST_TEST(in(name, repeated("[", 1'000'000)) == name + ":1:65: error: wanted at most 64 levels of nesting\n");
  }
  BOOST_TEST(in("j.yaml", repeated("{a: ", 1'000'000)) == "j.yaml:1:257: error: wanted at most 64 levels of nesting\n");
  BOOST_TEST(in("j.yaml", repeated("- ", 1'000'000)) == "j.yaml:1:129: error: wanted at most 64 levels of nesting\n");
  BOOST_TEST(in("j.json", repeated("{\"a\":", 1'000'000)) ==
             "j.json:1:321: error: wanted at most 64 levels of nesting\n");
  BOOST_TEST(errors_of(smallest, {{repeated("a.", 1'000'000).append("a=1")}})
                 .ends_with("error: wanted at most 64 levels of nesting\n"));
}

BOOST_AUTO_TEST_CASE(aliases_that_multiply_are_refused) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i)
    bomb += fmt::format("a{0}: &a{0} [*a{1}{2}]\n", i, i - 1, repeated(fmt::format(", *a{}", i - 1), 8));
  BOOST_TEST(in("j.yaml", bomb) ==
             "j.yaml:6:10: error: wanted at most 100000 values, aliases counted as often as they are used\n");
}

BOOST_AUTO_TEST_CASE(aliases_that_nest_are_refused) {
  std::string text = "a0: &a0 [x]\n";
  for (int i = 1; i < 70; ++i) text += fmt::format("a{0}: &a{0} [*a{1}]\n", i, i - 1);
  BOOST_TEST(in("j.yaml", text) == "j.yaml:64:12: error: wanted at most 64 levels of nesting\n");
  BOOST_TEST(in("j.yaml", "a: &x [*x]\n") ==
             "j.yaml:1:8: error: this alias is inside the value of its own anchor; remove it\n");
}

BOOST_AUTO_TEST_CASE(very_many_values_are_refused_before_they_cost_memory) {
  BOOST_TEST(in("j.yaml", "a: 1\nb: [" + repeated("1,", 1'000'000)) ==
             "j.yaml:2:200004: error: wanted at most 100000 values\n");
  BOOST_TEST(in("j.yaml", "a: 1\nb:\n" + repeated("- 1\n", 1'000'000)) ==
             "j.yaml:100000:3: error: wanted at most 100000 values, aliases counted as often as they are used\n");
}

BOOST_AUTO_TEST_CASE(more_than_16_mib_are_refused) {
  const std::string text = smallest + "# " + std::string(most_file_bytes, 'x');
  BOOST_TEST(in("j.yaml", text) ==
             fmt::format("j.yaml:1:1: error: wanted at most 16777216 bytes, got {}\n", text.size()));
}

BOOST_AUTO_TEST_CASE(more_than_100_errors_are_counted_only) {
  std::string many;
  for (int i = 0; i < 50'000; ++i) many += fmt::format("key_{}: 1\n", i);
  const auto l = load_text(many, "j.yaml", "/base");
  BOOST_TEST_REQUIRE(!l.has_value());
  BOOST_TEST(l.error().size() == most_diagnostics + 1);
  BOOST_TEST(l.error().back().text.ends_with("more were left out"));
}

BOOST_AUTO_TEST_CASE(files_that_are_no_mapping_are_refused) {
  for (const std::string name : {"j.yaml", "j.json"}) {
    BOOST_TEST_INFO_SCOPE(name);
    BOOST_TEST(in(name, "") == name + ":1:1: error: wanted a mapping of keys to values, got nothing\n");
    BOOST_TEST(in(name, " \n\n") == name + ":1:1: error: wanted a mapping of keys to values, got nothing\n");
    BOOST_TEST(in(name, "[1, 2]") == name + ":1:1: error: wanted a mapping of keys to values, got [1, 2]\n");
    BOOST_TEST(in(name, std::string("a: 1\nb\0: 2", 10)) == name + ":2:2: error: wanted text, got a NUL byte\n");
    BOOST_TEST(in(name, "a: \xFF") == name + ":1:4: error: wanted UTF-8 text, got another encoding\n");
  }
  const auto named = load_text(smallest, "j.yaml", "/base", {.overrides = {"mo\xFF=1"}});
  BOOST_TEST_REQUIRE(!named.has_value());
  BOOST_TEST(render(named.error()) == "--set mo?=1: error: wanted UTF-8 text, got another encoding\n");
  BOOST_TEST(in("j.yaml", "# only a comment\n") ==
             "j.yaml:1:1: error: wanted a mapping of keys to values, got nothing\n");
  BOOST_TEST(in("j.json", "// only a comment\n") ==
             "j.json:2:1: error: not readable as JSON: the text ends too early\n");
  BOOST_TEST(in("j.yaml", smallest + "---\nsteps: 1\n") ==
             "j.yaml:10:1: error: wanted one document, got a second one\n");
  BOOST_TEST(in("j.yaml", "? [a]\n: 1\n") ==
             "j.yaml:1:3: error: wanted a name in front of ':', got a list or a mapping; is a bracket not closed?\n");
  BOOST_TEST(in("j.yaml", "a: !!python/object x\n")
                 .starts_with("j.yaml:1:4: error: wanted a value without a tag, got the tag "));
  BOOST_TEST(in("j.yaml", "a: [1, 2\nb: 3\n").starts_with("j.yaml:"));
  BOOST_TEST(in("j.json", "{\"a\": 1,\n  \"b\" 2}") == "j.json:2:7: error: not readable as JSON here: '2'\n");
  BOOST_TEST(in("j.json", "{\"a\": 1") == "j.json:1:8: error: not readable as JSON: the text ends too early\n");
}

BOOST_AUTO_TEST_CASE(paths_that_are_no_file_are_refused) {
  BOOST_TEST(render(load("/nowhere/job.yaml").error()) ==
             "/nowhere/job.yaml: error: the file does not exist; check the path\n");
  BOOST_TEST(render(load("/").error()) == "/: error: wanted a file, got a folder\n");
  BOOST_TEST(render(load("/dev/zero").error()) == "/dev/zero: error: wanted at most 16777216 bytes, got more\n");
  BOOST_TEST(render(load("/dev/null").error()) ==
             "/dev/null:1:1: error: wanted a mapping of keys to values, got nothing\n");
}

BOOST_AUTO_TEST_SUITE_END()
