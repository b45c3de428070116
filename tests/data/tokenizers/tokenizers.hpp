// Reads the small tokenizers of tests/data/fixtures and the tokens that the real packages return for strings that are
// hard to split.
#pragma once

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "data/documents.hpp"
#include "data/formats/text_window.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "tests/check_ok.hpp"
#include "tests/places.hpp"

namespace troupe::tests {

inline std::filesystem::path fixture_path(const std::string& name) {
  return std::filesystem::path(troupe::places::source_dir) / "tests" / "data" / "fixtures" / name;
}

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline const nlohmann::json& fixture() {
  static const auto all = nlohmann::json::parse(content_of(fixture_path("tokenizers.json")));
  return all;
}

inline std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2) out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

inline std::unique_ptr<data::tokenizer> tokenizer_of(const std::string& name) {
  auto out = data::open_tokenizer(fixture_path(name));
  BOOST_REQUIRE_MESSAGE(out, out.error().text);
  return std::move(*out);
}

inline std::vector<uint32_t> encoded(data::tokenizer& t, std::string_view text) {
  std::vector<uint32_t> out;
  const auto ok = t.encode(text, out);
  BOOST_REQUIRE_MESSAGE(ok, ok.error().text);
  return out;
}

/// Returns the tokens of `text` in pieces, for each of which the tokenizer sees `first_bytes` first.
inline std::vector<uint32_t> in_pieces(data::tokenizer& by, std::string_view text, uint64_t first_bytes) {
  data::text_window document(text);
  std::vector<uint32_t> out;
  for (uint64_t at = 0; at < text.size();) {
    const uint64_t n = *check_ok(data::encode_piece(by, document, at, !out.empty(), first_bytes, out));
    BOOST_REQUIRE(n > 0U);
    at += n;
  }
  return out;
}

/// Returns the content of a tokenizer.json with the fixture's vocabulary and merges.
inline nlohmann::json whole_pipeline() {
  nlohmann::json out{{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}}};
  out["model"] = {{"type", "BPE"},
                  {"vocab", nlohmann::json::parse(content_of(fixture_path("gpt2/vocab.json")))},
                  {"merges", nlohmann::json::array()}};
  std::istringstream lines(content_of(fixture_path("gpt2/merges.txt")));
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("#version")) out["model"]["merges"].push_back(line);
  return out;
}

/// Returns the content of a tokenizer.json with the rules of one of the fixture's pipelines.
inline nlohmann::json pipeline_of(const nlohmann::json& rules) {
  auto out = whole_pipeline();
  out["pre_tokenizer"] = rules["pre_tokenizer"];
  out["normalizer"] = rules["normalizer"];
  out["model"]["ignore_merges"] = rules["ignore_merges"];
  for (const auto& [word, number] : rules["more_words"].items()) out["model"]["vocab"][word] = number;
  for (const auto& merge : rules["more_merges"])
    out["model"]["merges"].push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  return out;
}

/// Checks that opening `path` fails as bad input and that the error's text contains `words`.
inline void check_no_tokenizer(const std::filesystem::path& path, const std::string& words) {
  check_failed(data::open_tokenizer(path), core::error_kind::bad_input, words);
}

}  // namespace troupe::tests
