// Tests `~` and environment variables in paths: their expansion, errors, and which keys accept them.
#include "config/document/path_text.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "config/keys/key_table.hpp"
#include "tests/config/text.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(path_text)

using namespace troupe::config;

namespace {

struct with_environment {
  with_environment() {
    ::setenv("HOME", "/home/me", 1);
    ::setenv("TROUPE_PLACE", "/scratch/7", 1);
    ::unsetenv("TROUPE_NOTHING");
  }
};

std::string path_from(const std::string& text, const std::filesystem::path& folder = "/base") {
  const auto got = expanded_path(text, folder);
  return got ? *got : got.error();
}

}  // namespace

BOOST_AUTO_TEST_CASE(home_and_variables_are_put_in) {
  const with_environment known;
  BOOST_TEST(path_from("~") == "/home/me");
  BOOST_TEST(path_from("~/runs") == "/home/me/runs");
  BOOST_TEST(path_from("$HOME/runs") == "/home/me/runs");
  BOOST_TEST(path_from("${TROUPE_PLACE}/x") == "/scratch/7/x");
  BOOST_TEST(path_from("/data/${TROUPE_PLACE}x$TROUPE_PLACE") == "/data//scratch/7x/scratch/7");
  for (const char* as_it_is : {"runs", "./~/x", "a~b", "cost$5", "a$", "${", "$-"})
    BOOST_TEST_CONTEXT(as_it_is) BOOST_TEST(path_from(as_it_is) == as_it_is);
}

BOOST_AUTO_TEST_CASE(what_stands_for_nothing_is_refused) {
  const with_environment known;
  BOOST_TEST(path_from("~you/runs") ==
             "wanted a path, got ~you/runs: ~USER is not supported; write the full path, or begin with ./~ if the name "
             "of the file begins with ~");
  BOOST_TEST(path_from("x/$TROUPE_NOTHING") ==
             "wanted a path, got x/$TROUPE_NOTHING: the environment variable TROUPE_NOTHING is not set, and a file of "
             "that name does not exist");
  ::unsetenv("HOME");
  BOOST_TEST(path_from("~/x") ==
             "wanted a path, got ~/x: ~ cannot be expanded, because HOME is not set to an absolute path");
}

BOOST_AUTO_TEST_CASE(a_file_that_exists_under_its_name_is_that_one) {
  const with_environment known;
  const troupe::tests::scratch_folder folder;
  folder.write("a$HOME/x", "");
  BOOST_TEST(path_from("a$HOME/x", folder.path()) == "a$HOME/x");
  BOOST_TEST(path_from("a$HOME/$TROUPE_PLACE", folder.path()) == "a$HOME//scratch/7");
  BOOST_TEST(path_from("b$HOME/x", folder.path()) == "b/home/me/x");
}

BOOST_AUTO_TEST_CASE(every_key_that_names_a_file_reads_them) {
  const with_environment known;
  size_t looked_at = 0;
  for (const key_info& row : key_table()) {
    const bool names_a_file = row.type == value_type::path || row.key == "data.tokenizer";
    if (!names_a_file || row.in_list() || !row.support.refusal.empty() || row.key.find('*') != std::string::npos)
      continue;
    const load_options options{.overrides = {std::string(row.key) + "=~you/x"}};
    BOOST_TEST(errors_of(smallest, options).find("~USER is not supported") != std::string::npos, row.key);
    ++looked_at;
  }
  BOOST_TEST(looked_at > 15U);
}

BOOST_AUTO_TEST_CASE(a_job_that_is_written_out_and_read_again_has_the_same_paths) {
  const with_environment known;
  const auto l = load_text(smallest + "output: ~/runs/$TROUPE_PLACE\n", "j.yaml", "/base");
  BOOST_TEST_REQUIRE(l.has_value());
  BOOST_TEST(l->config.output == "/home/me/runs/scratch/7");
  BOOST_TEST(
      errors_of(smallest + "output: $TROUPE_NOTHING/x\n").starts_with("j.yaml:9:9: error: output: wanted a path"));
}

BOOST_AUTO_TEST_CASE(a_set_of_a_text_says_the_very_text) {
  const with_environment known;
  const auto listen = [](const std::string& value) {
    const load_options options{.overrides = {"output=" + value}};
    const auto l = load_text(smallest, "j.yaml", "/base", options);
    return l ? l->config.output.lexically_relative(std::filesystem::current_path()).string() : render(l.error());
  };
  BOOST_TEST(listen("[::1]:4472") == "[::1]:4472");
  BOOST_TEST(listen("{a}") == "{a}");
  BOOST_TEST(listen("*.txt") == "*.txt");
  BOOST_TEST(listen("@x") == "@x");
  BOOST_TEST(listen("a: b") == "a: b");
  BOOST_TEST(listen("a #b") == "a #b");
  BOOST_TEST(listen("\"quoted\"") == "quoted");
  BOOST_TEST(listen("plain") == "plain");
}

BOOST_AUTO_TEST_SUITE_END()
