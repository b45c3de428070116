// Tests the source tree itself: which folders include which, where outside libraries are used, and a few conventions.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(tidy)

namespace {

namespace fs = std::filesystem;

struct source_file {
  std::string folder, path;
  std::vector<std::string> lines;
};

const std::vector<std::string> folders = {"core",   "families", "config",  "device",      "plan",    "telemetry",
                                          "data",   "kernels",  "fabric",  "storage",     "formats", "checkpoint",
                                          "models", "job",      "actors",  "compression", "apps",    "cluster",
                                          "net",    "sim",      "hardware"};

std::vector<source_file> sources_of(const std::vector<std::string>& names) {
  std::vector<source_file> out;
  for (const auto& folder : names)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(troupe::places::source_dir) / folder)) {
      const auto ending = entry.path().extension();
      if (ending != ".hpp" && ending != ".cpp" && ending != ".cu" && ending != ".cuh") continue;
      source_file f{folder, fs::relative(entry.path(), troupe::places::source_dir).string(), {}};
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) f.lines.push_back(line);
      out.push_back(std::move(f));
    }
  return out;
}

const std::vector<source_file>& tree() {
  static const auto all = sources_of(folders);
  return all;
}

std::string included(const std::string& line) {
  static const std::regex pattern("^\\s*#\\s*include\\s*[\"<]([^\">]+)[\">]");
  std::smatch m;
  return std::regex_search(line, m, pattern) ? m[1].str() : "";
}

bool starts_with_any(const std::string& text, const std::vector<std::string>& heads) {
  for (const auto& h : heads)
    if (text.rfind(h, 0) == 0) return true;
  return false;
}

/// Returns the position at which the comment of a line begins, or npos if the line has none.
size_t comment_in(const std::string& line) {
  bool is_text = false;
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] == '"' && (i == 0 || line[i - 1] != '\\')) is_text = !is_text;
    if (!is_text && line.compare(i, 2, "//") == 0) return i;
  }
  return std::string::npos;
}

/// Calls f(line number, text) for the first line of each comment. Consecutive lines that contain only a comment are one
/// comment.
void for_each_comment(const source_file& file, auto f) {
  bool goes_on = false;
  for (size_t n = 0; n < file.lines.size(); ++n) {
    const std::string& line = file.lines[n];
    const size_t begin = comment_in(line);
    const bool is_alone = begin != std::string::npos && line.find_first_not_of(' ') == begin;
    const size_t text = line.find_first_not_of("/<! ", begin);
    if (begin != std::string::npos && text != std::string::npos && !(is_alone && goes_on)) f(n + 1, line.substr(text));
    goes_on = is_alone;
  }
}

std::string folder_of(const std::string& path) { return fs::path(path).parent_path().string(); }

// Returns the includes that the table "Folders" of docs/architecture.md allows: `folder/` | what it owns | what it may
// include.
std::map<std::string, std::set<std::string>> documented_arrows() {
  static const std::regex row("^\\| `([a-z_/]+)/` \\|.*\\| ([^|]*) \\|$"), name("[a-z_/]+");
  std::map<std::string, std::set<std::string>> out;
  std::ifstream in(fs::path(troupe::places::source_dir) / "docs/architecture.md");
  std::smatch m;
  for (std::string line; std::getline(in, line);) {
    if (!std::regex_match(line, m, row)) continue;
    auto& to = out[m[1]];
    const std::string list = m[2];
    for (std::sregex_iterator it(list.begin(), list.end(), name), end; it != end; ++it) to.insert(it->str());
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(folders_include_exactly_what_the_architecture_allows) {
  const auto allowed = documented_arrows();
  BOOST_REQUIRE(allowed.size() > 20U);
  BOOST_TEST(tree().size() > 100U);
  std::map<std::string, std::set<std::string>> used;
  for (const auto& f : tree()) {
    const std::string place = folder_of(f.path);
    BOOST_TEST_REQUIRE(allowed.contains(place), place << " has no row in the table of folders");
    for (const auto& line : f.lines) {
      const std::string what = included(line), top = what.substr(0, what.find('/'));
      if (std::ranges::find(folders, top) == folders.end()) continue;
      const std::string from = top == f.folder ? place : f.folder;
      // The table allows either another folder as a whole, or some of its subfolders.
      const bool whole = top != f.folder && !allowed.at(from).contains(folder_of(what));
      const std::string to = whole ? top : folder_of(what);
      if (from == to) continue;
      used[from].insert(to);
      BOOST_TEST(allowed.at(from).count(to) == 1U, f.path << " includes " << what);
    }
  }
  for (const auto& [from, to] : allowed)
    for (const auto& folder : to)
      BOOST_TEST(used[from].count(folder) == 1U, from << " may include " << folder << " and does not");
}

BOOST_AUTO_TEST_CASE(arrows_point_one_way) {
  const auto allowed = documented_arrows();
  std::set<std::string> seen, open;
  const std::function<void(const std::string&)> visit = [&](const std::string& folder) {
    BOOST_TEST(open.insert(folder).second, folder << " includes itself by way of others");
    if (seen.insert(folder).second)
      // A subfolder may include the other folders that its parent folder may include; its own row lists includes within
      // the parent.
      for (const auto& row : {folder, folder.substr(0, folder.find('/'))})
        for (const auto& to : allowed.at(row))
          if (to != folder && (row == folder || !to.starts_with(row + "/"))) visit(to);
    open.erase(folder);
  };
  for (const auto& [folder, to] : allowed) visit(folder);
}

BOOST_AUTO_TEST_CASE(includes_are_paths_from_the_trees_root) {
  for (const auto& f : tree())
    for (const auto& line : f.lines)
      if (const auto what = included(line); !what.empty() && line.find('"') != std::string::npos)
        BOOST_TEST((what.find('/') != std::string::npos && fs::exists(fs::path(troupe::places::source_dir) / what)),
                   f.path << " includes " << what);
}

BOOST_AUTO_TEST_CASE(no_header_is_for_tests_alone) {
  std::set<std::string> wanted;
  for (const auto& f : tree())
    for (const auto& line : f.lines) {
      const std::string what = included(line);
      if (fs::path(what).replace_extension() != fs::path(f.path).replace_extension()) wanted.insert(what);
    }
  std::ifstream installed(fs::path(troupe::places::source_dir) / "cmake/public_headers.txt");
  for (std::string header, rest; installed >> header; std::getline(installed, rest)) wanted.insert(header);
  for (const auto& f : tree())
    if (f.path.ends_with(".hpp"))
      BOOST_TEST(wanted.contains(f.path), f.path << " is neither installed nor included by anything but tests");
}

BOOST_AUTO_TEST_CASE(each_outside_library_is_seen_in_one_place) {
  struct rule {
    std::vector<std::string> headers;
    std::vector<std::string> places;  // path prefixes of the files that may use it
  };
  const std::vector<rule> rules = {
      {{"caf/"}, {"actors/caf.hpp", "actors/sim"}},
      {{"torch/", "ATen/", "c10/"},
       {"models/segment/", "models/layers/", "models/families/", "models/compress/", "models/inject/", "models/host/",
        "models/cuda/", "actors/", "compression/", "apps/examples/"}},
      {{"yaml-cpp/"}, {"config/"}},
      {{"liburing"}, {"storage/"}},
      {{"hwy/"}, {"kernels/"}},
      {{"cuda"}, {"device/cuda/", "kernels/cuda/"}},
      {{"ATen/cuda/", "c10/cuda/"}, {"models/cuda/"}},
      {{"zlib.h"}, {"data/", "telemetry/analysis/packed_stream."}},
      {{"lz4", "snappy"}, {"data/formats/columns/block_codec."}},
      {{"pcre2.h"}, {"data/tokenizers/text/word_cutter."}},
      {{"utf8proc.h"}, {"data/tokenizers/text/characters."}},
      {{"sentencepiece_processor.h"}, {"data/tokenizers/opening/sentencepiece."}},
      {{"re2/"},
       {"formats/names/name_pattern.", "config/sections/name_pattern.", "config/sections/parameter_groups.",
        "config/rules/training_rules."}},
      {{"xxhash.h"}, {"storage/files/digest.", "storage/swap/page_digest.", "fabric/shared/board."}},
      {{"nlohmann/"},
       {"core/json_text.hpp", "config/", "data/", "formats/", "checkpoint/", "job/model/folder_model.", "models/table/",
        "models/families/", "telemetry/analysis/trace_events.", "apps/"}},
      {{"boost/asio"}, {"net/io_loop.cpp"}},
      {{"openssl/"}, {"net/", "apps/page/secure_channel."}},
      {{"CLI/"}, {"apps/"}},
      {{"nanobind/"}, {"apps/python/"}}};
  for (const auto& f : tree())
    for (const auto& line : f.lines) {
      const std::string what = included(line);
      if (what.empty()) continue;
      for (const auto& r : rules)
        if (starts_with_any(what, r.headers))
          BOOST_TEST(starts_with_any(f.path, r.places), f.path << " includes " << what);
    }
}

// A host may find LibTorch's headers of another version of fmt first.
BOOST_AUTO_TEST_CASE(headers_for_hosts_do_not_include_fmt) {
  std::map<std::string, const source_file*> by_path;
  for (const auto& f : tree()) by_path[f.path] = &f;
  std::set<std::string> seen;
  const std::function<void(const std::string&)> visit = [&](const std::string& path) {
    const auto found = by_path.find(path);
    if (found == by_path.end() || !seen.insert(path).second) return;
    for (const auto& line : found->second->lines) {
      const std::string what = included(line);
      BOOST_TEST(!what.starts_with("fmt/"), path << " includes " << what);
      visit(what);
    }
  };
  std::ifstream installed(fs::path(troupe::places::source_dir) / "cmake/public_headers.txt");
  for (std::string header, rest; installed >> header; std::getline(installed, rest)) visit(header);
  BOOST_TEST(seen.size() > 100U);
}

BOOST_AUTO_TEST_CASE(hands_know_no_actors) {
  std::map<std::string, const source_file*> by_path;
  for (const auto& f : tree()) by_path[f.path] = &f;
  for (const auto& f : tree()) {
    if (!folder_of(f.path).starts_with("actors/hands")) continue;
    std::set<std::string> seen;
    const std::function<void(const source_file&)> visit = [&](const source_file& from) {
      for (const auto& line : from.lines)
        if (const auto found = by_path.find(included(line)); found != by_path.end() && seen.insert(found->first).second)
          visit(*found->second);
    };
    visit(f);
    BOOST_TEST(!seen.contains("actors/caf.hpp"), f.path << " reaches actors/caf.hpp");
  }
}

BOOST_AUTO_TEST_CASE(numbers_of_tensors_are_waited_for_only_before_a_run_and_to_explain_a_failure) {
  const std::regex reads("\\.item(<[a-z0-9_:]*>)?\\(");
  BOOST_TEST(std::regex_search("loss.item<double>()", reads));
  for (const auto& f : tree())
    for (const auto& line : f.lines)
      if (f.path != "actors/hands/flight.cpp" && f.path != "models/host/probe.cpp" &&
          f.path != "models/inject/comparison.cpp" && f.folder != "apps" &&
          !f.path.starts_with("models/compress/"))  // compression runs outside of training
        BOOST_TEST(!std::regex_search(line, reads), f.path << ": " << line);
}

BOOST_AUTO_TEST_CASE(the_real_clock_is_read_in_one_file) {
  for (const auto& f : tree())
    for (const auto& line : f.lines)
      if (f.path != "core/clock.hpp") BOOST_TEST(line.find("_clock::now") == std::string::npos, f.path << ": " << line);
}

BOOST_AUTO_TEST_CASE(libraries_never_end_the_process_nor_touch_its_signals) {
  // The pattern matches calls of these functions, but no member functions of the same name (x->abort(why)) and no
  // longer names.
  const std::regex ending(
      "(^|^::|[^A-Za-z0-9_.>:]|std::|[^A-Za-z0-9_]::)"
      "((exit|_exit|_Exit|quick_exit|signal|sigaction|sigprocmask|pthread_sigmask|raise)\\s*\\(|"
      "(abort|terminate)\\s*\\(\\s*\\))");
  for (const char* caught : {"  std::exit(1);", "  exit(code);", "::_exit(0);", "std::abort();", "  abort( );",
                             "std::terminate();", "::signal(SIGINT, f);", "return ::sigaction(s, &a, nullptr);"})
    BOOST_TEST_CONTEXT(caught) BOOST_TEST(std::regex_search(caught, ending), caught);
  for (const char* allowed : {"hands->abort(why);", "s.abort();", "void on_exit() {", "anon_send_exit(h, r);",
                              "world.exit(1)", "communicator::abort(why)"})
    BOOST_TEST_CONTEXT(allowed) BOOST_TEST(!std::regex_search(allowed, ending), allowed);
  for (const auto& f : tree())
    for (const auto& line : f.lines)
      if (f.folder != "apps") BOOST_TEST(!std::regex_search(line, ending), f.path << ": " << line);
}

BOOST_AUTO_TEST_CASE(libraries_spell_numbers_without_the_locale) {
  // A host may use any locale, so numbers are written by core/text.hpp and read by core/number.hpp; streams only carry
  // text.
  const std::regex asks(
      "(printf|std::sto[dfl]+|[^a-z_](strto[dfl]+|atof|strfmon|localeconv)) *\\(|"
      "std::(tolower|toupper|is(alpha|alnum|digit|xdigit|space|blank|cntrl|print|graph|punct|lower|upper)) *\\(|"
      "std::(o|)stringstream|std::(fixed|setprecision|scientific)|std::regex|\\{:[^}\"]*L\\}");
  for (const char* caught : {"std::snprintf(a, b, c)", "::fprintf (f)", " std::stod(x)", "= strtod(a, b)",
                             "std::stof(x)", "std::tolower(c)", "std::isspace(c)", "std::ostringstream out;",
                             "std::stringstream s;", "out << std::fixed", "{:L}", "{:.2Lf}{:8L}"})
    BOOST_TEST_CONTEXT(caught) BOOST_TEST(std::regex_search(caught, asks), caught);
  for (const char* allowed : {"std::stoul(x)", "core::text_of(\"%f\")", "std::istringstream in(text);", "is_space(c)",
                              "{:.2f}", "mismatch(", "stringify("})
    BOOST_TEST(!std::regex_search(allowed, asks), allowed);
  for (const auto& f : tree())
    for (const auto& line : f.lines)
      if (f.folder != "apps" && f.path != "core/text.hpp")
        BOOST_TEST(!std::regex_search(line.substr(0, line.find("//")), asks), f.path << ": " << line);
}

BOOST_AUTO_TEST_CASE(numbers_are_read_from_text_in_one_file) {
  for (const auto& f : tree())
    for (const auto& line : f.lines)
      if (f.path != "core/number.hpp") BOOST_TEST(line.find("from_chars") == std::string::npos, f.path << ": " << line);
}

BOOST_AUTO_TEST_CASE(json_from_outside_is_parsed_in_one_place) {
  const std::regex parses("(^|[^A-Za-z0-9_])(json|ordered_json|nlohmann::json|nlohmann::ordered_json)::parse\\(");
  for (const auto& f : tree())
    for (const auto& line : f.lines) {
      // These files parse text that this process wrote itself, or text that has been checked before.
      if (f.path == "checkpoint/native/manifest_tree.cpp" || f.path == "checkpoint/convert/reshape.cpp" ||
          f.path == "config/explain.cpp")
        continue;
      BOOST_TEST(!std::regex_search(line, parses), f.path << ": " << line);
    }
}

BOOST_AUTO_TEST_CASE(every_header_says_what_it_owns_and_is_included_once) {
  for (const auto& f : tree()) {
    if (f.path.size() < 4 || f.path.substr(f.path.size() - 4) != ".hpp" || f.lines.empty()) continue;
    BOOST_TEST(f.lines.front().rfind("//", 0) == 0U, f.path << " opens without a comment");
    const bool once = std::any_of(f.lines.begin(), f.lines.end(), [](const auto& l) {
      return l == "#pragma once" || l.find("HWY_TARGET_TOGGLE") != std::string::npos;
    });
    BOOST_TEST(once, f.path << " may be included twice");
  }
}

// A comment with such an opening has no subject, or its subject is in another comment (CONTRIBUTING.md).
BOOST_AUTO_TEST_CASE(comments_name_their_subject) {
  static const std::regex opening(
      "^(Of|As|By|From|With|Behind|Beside|What|Those|The same|It|They|Whether)([^A-Za-z_].*)?$");
  auto files = tree();
  std::ranges::move(sources_of({"examples"}), std::back_inserter(files));
  for (const auto& f : files)
    for_each_comment(f, [&](size_t line, const std::string& text) {
      BOOST_TEST(!std::regex_match(text, opening), f.path << ":" << line << ": " << text);
    });
}

BOOST_AUTO_TEST_SUITE_END()
