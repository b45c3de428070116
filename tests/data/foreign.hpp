// Shared by tests of files that other programs wrote: tests/data/fixtures/sources, what their own readers say of them,
// and mutations.
#pragma once

#include <boost/test/unit_test.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/data/text.hpp"
#include "tests/data/tokenizers.hpp"

namespace troupe::tests {

inline std::filesystem::path foreign_path(const std::string& name) { return fixture_path("sources") / name; }

/// What the format's own reader makes of `name`.
inline const nlohmann::json& foreign(const std::string& name) {
  static const auto all = nlohmann::json::parse(content_of(foreign_path("expected.json")));
  return all.at(name);
}

/// Calls `look` with `count` broken forms of `sound`: cut off, with bytes changed, exchanged or taken out, or with a
/// number made huge. The same ones in every run.
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
