// Provides the conversations that transformers rendered and encoded (tests/peer/make_conversation_fixtures.py).
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/source_file.hpp"
#include "data/chat/chat_sample.hpp"
#include "data/formats/files.hpp"
#include "data/formats/objects.hpp"
#include "tests/check_ok.hpp"
#include "tests/places.hpp"

namespace troupe::tests {

inline std::filesystem::path chat_fixtures() {
  return std::filesystem::path(troupe::places::source_dir) / "tests" / "data" / "fixtures" / "chat";
}

inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

/// Returns the rows of a file of the fixture.
inline std::vector<nlohmann::ordered_json> chat_rows(const std::string& name) {
  const auto path = chat_fixtures() / name;
  const auto file = *check_ok(core::source_file::open(path));
  uint64_t left = uint64_t{1} << 20;
  std::vector<nlohmann::ordered_json> out;
  check_ok(data::read_objects(data::kind_of(path), file, {"messages", "conversations"}, left,
                              [&](const nlohmann::ordered_json& row, const std::string&, uint64_t) {
                                out.push_back(row);
                                return core::result<void>();
                              }));
  return out;
}

/// Returns the tokens of a sample that count, and -100 in place of the others.
inline std::vector<int64_t> labels_of(const data::chat_sample& x) {
  std::vector<int64_t> out(x.tokens.size(), -100);
  for (const auto& one : x.counted)
    for (uint64_t i = one.begin; i < one.end; ++i) out[i] = x.tokens[i];
  return out;
}

}  // namespace troupe::tests
