// Tests the code on the pages: each block is in a language that is checked, and blocks of C++ and CMake are copies of
// the examples, which are built.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "tests/docs/pages.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(samples)

using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

const fs::path source = troupe::places::source_dir;
using snippets = std::map<std::string, std::string>;

/// Reads the text between "[snippet: name]" and "[end]", both in comments, without the indentation that the lines
/// share.
void read_snippets(const fs::path& file, snippets& out) {
  std::string name;
  size_t indent = 0;
  for (const auto& line : lines_of(file)) {
    const auto text = std::min(line.find_first_not_of(' '), line.size());
    std::string bare = line.substr(text);
    for (const std::string comment : {"// ", "# "})
      if (bare.starts_with(comment + "[")) bare = bare.substr(comment.size());
    if (bare.starts_with("[snippet: ")) {
      name = bare.substr(10, bare.size() - 11);
      indent = text;
      BOOST_TEST(!out.contains(name), file << " has another snippet '" << name << "'");
      out[name];
    } else if (bare == "[end]") {
      name.clear();
    } else if (!name.empty()) {
      out[name] += (line.size() > indent ? line.substr(indent) : "") + "\n";
    }
  }
}

/// Returns the snippets of all examples that are built.
snippets all_snippets() {
  snippets out;
  for (const char* folder : {"examples", "apps/examples"})
    for (const auto& entry : fs::recursive_directory_iterator(source / folder))
      if (entry.is_regular_file()) read_snippets(entry.path(), out);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(code_is_between_fences_that_name_its_language) {
  const std::set<std::string> languages = {"cpp", "cmake", "sh", "console", "yaml", "json", "text"};
  const std::set<std::string> marks = {"snippet", "file", "not run"};
  size_t blocks = 0;
  for (const auto& page : pages()) {
    for (const auto& b : blocks_of(page)) {
      ++blocks;
      BOOST_TEST(languages.contains(b.language), b.place() << " is in '" << b.language << "'");
      for (const auto& [key, value] : b.marks)
        BOOST_TEST(marks.contains(key), b.place() << " is marked '" << key << "'");
    }
    bool inside = false, after_text = false;
    for (const auto& line : lines_of(source / page)) {
      if (line.starts_with("```")) inside = !inside;
      BOOST_TEST((inside || after_text || !line.starts_with("    ")), page << ": code without a fence: " << line);
      after_text = !line.empty();
    }
    BOOST_TEST(!inside, page << " ends in a block of code");
  }
  BOOST_TEST(blocks > 30U);
}

BOOST_AUTO_TEST_CASE(cpp_and_cmake_on_the_pages_are_the_examples_own) {
  const auto known = all_snippets();
  BOOST_TEST(known.size() > 8U);
  std::set<std::string> shown;
  for (const auto& page : pages())
    for (const auto& b : blocks_of(page)) {
      if (b.language != "cpp" && b.language != "cmake") continue;
      const auto name = b.marks.find("snippet");
      BOOST_TEST_REQUIRE((name != b.marks.end()), b.place() << " is of no example that is built");
      const auto snippet = known.find(name->second);
      BOOST_TEST_REQUIRE((snippet != known.end()), b.place() << ": no example has '" << name->second << "'");
      BOOST_TEST(snippet->second == b.text(), b.place() << " shows another '" << name->second << "'");
      shown.insert(name->second);
    }
  for (const auto& [name, text] : known) BOOST_TEST(shown.contains(name), name << " is on no page");
}

BOOST_AUTO_TEST_CASE(targets_of_make_that_the_pages_name_exist) {
  std::set<std::string> targets;
  for (const auto& line : lines_of(source / "Makefile"))
    if (const auto colon = line.find(": "); colon != std::string::npos && line.find("## ") != std::string::npos)
      targets.insert(line.substr(0, colon));
  const auto check = [&](const std::string& command, const std::string& where) {
    if (!command.starts_with("make ")) return;
    const auto target = command.substr(5, command.find(' ', 5) - 5);
    BOOST_TEST(targets.contains(target), where << ": " << command);
  };
  for (const auto& page : pages()) {
    for (const auto& code : inline_code_of(page)) check(code, page);
    for (const auto& b : blocks_of(page))
      for (const auto& line : b.lines) check(line, b.place());
  }
}

BOOST_AUTO_TEST_SUITE_END()
