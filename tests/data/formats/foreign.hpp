// Reads files that other programs wrote (tests/data/fixtures/sources) and the rows that those programs' own readers
// returned, and makes mutations of files; shared by tests.
#pragma once

#include <boost/test/unit_test.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "data/formats/rows.hpp"
#include "tests/data/text.hpp"
#include "tests/data/tokenizers/tokenizers.hpp"

namespace troupe::tests {

inline std::filesystem::path foreign_path(const std::string& name) { return fixture_path("sources") / name; }

/// Returns the rows of the file `name`, as the format's own reader returned them.
inline const nlohmann::json& foreign(const std::string& name) {
  static const auto all = nlohmann::json::parse(content_of(foreign_path("expected.json")));
  return all.at(name);
}

/// Returns the texts under `key` in all rows of a file, or the error.
inline core::result<std::vector<std::string>> rows_of(const std::filesystem::path& path,
                                                      const std::string& key = "text",
                                                      uint64_t max_bytes = uint64_t{1} << 24) {
  const auto file = core::source_file::open(path);
  if (!file) return core::fail(file.error());
  std::vector<std::string> out;
  auto ok = data::read_rows(data::kind_of(path), *file, key, max_bytes,
                            [&](std::optional<std::string_view> text, uint64_t byte) {
                              BOOST_TEST(byte <= file->size());
                              if (text) out.emplace_back(*text);
                              return core::result<void>{};
                            });
  if (!ok) return core::fail(ok.error());
  return out;
}

/// Checks that the rows of the file `name` are those that the format's own reader returned. `as`: name of the entry in
/// expected.json, if it differs from `name`.
inline void check_rows(const std::string& name, const std::string& key = "text", const std::string& as = "") {
  const auto got = rows_of(foreign_path(name), key);
  BOOST_REQUIRE_MESSAGE(got, got.error().text);
  BOOST_TEST(*got == foreign(as.empty() ? name : as).get<std::vector<std::string>>(), boost::test_tools::per_element());
}

inline void check_rows_refused(const std::filesystem::path& path, const std::string& words,
                               const std::string& key = "text") {
  const auto got = rows_of(path, key);
  BOOST_REQUIRE_MESSAGE(!got, path.string() + " was read");
  BOOST_TEST(got.error().text.find(path.string()) != std::string::npos, got.error().text);
  BOOST_TEST(got.error().text.find(words) != std::string::npos, got.error().text);
}

/// Calls `look` with `count` damaged forms of `sound`: truncated, with bytes changed, exchanged or removed, or with a
/// number made huge. Every test run uses the same forms.
inline void each_mutation(const std::string& sound, size_t count, const std::function<void(const std::string&)>& look) {
  std::mt19937_64 random(sound.size());
  for (size_t i = 0; i < count; ++i) {
    std::string x = sound;
    const auto place = [&] { return random() % x.size(); };
    switch (i % 5) {
      case 0:
        x.resize(place());
        break;
      case 1:
        x.erase(place(), 1 + random() % 16);
        break;
      case 2:
        for (size_t at = place(), end = std::min(x.size(), at + 8); at < end; ++at) x[at] = static_cast<char>(0xFF);
        break;
      default:
        for (uint64_t n = 1 + random() % 4; n > 0; --n) x[place()] = static_cast<char>(random());
    }
    look(x);
  }
}

}  // namespace troupe::tests
