// Provides the model that DeepSpeed 0.19.6 compresses in fixtures, and sessions with the same initial weights and
// pruning scores.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>

#include "actors/session/state_access.hpp"
#include "job/compression/mask_scores.hpp"
#include "tests/places.hpp"
#include "tests/small_job.hpp"

namespace troupe::tests {

using json = nlohmann::json;

/// Returns the parsed file tests/parity/fixtures/NAME.
inline json peers_fixture(const std::string& name) {
  std::ifstream file((std::string(troupe::places::source_dir) + "/tests/parity/fixtures/") + name);
  BOOST_TEST_REQUIRE(bool(file), name);
  return json::parse(file);
}

/// Returns the `compression_training` section of the run's DeepSpeed configuration as settings.
inline settings section_of(const json& run) { return {"compression_training=" + run["compression_training"].dump()}; }

/// A small job that trains a GPT-2 with the weights of tests/models/fixtures/gpt2.
struct peers_job : small_job {
  inline static const std::string model = std::string("model: {path: ") + troupe::places::source_dir + "/tests/models/fixtures/gpt2}\n";

  explicit peers_job(const std::string& text) : small_job(model, text) {}

  /// Opens a session whose pruning scores are those that tests/peer/make_compressed_training_fixture.py sets.
  [[nodiscard]] std::unique_ptr<actors::session> begin(const settings& set) const {
    auto s = open(set);
    for (const auto& p : s->table().parameters) {
      if (!job::is_score_name(p.name)) continue;
      std::vector<float> scores(p.numel());
      for (uint64_t i = 0; i < scores.size(); ++i)
        scores[i] = static_cast<float>(double((i * 7919 + 31) % scores.size()) / double(scores.size()) - 0.5);
      const auto set_them = s->states().set_full_fp32_param(p.name, scores);
      BOOST_TEST_REQUIRE(set_them.has_value());
    }
    return s;
  }
};

/// Saves a checkpoint of the session together with the run's `compression_training` section, and returns its root
/// folder.
inline std::filesystem::path saved(const peers_job& job, actors::session& s, const json& run) {
  auto folder = job.folder().path() / "saved";
  const std::string section = "compression_training: " + run["compression_training"].dump() + "\n";
  const auto at = s.save({.root = folder, .configuration = peers_job::model + training_keys + section});
  BOOST_REQUIRE_MESSAGE(at.has_value(), (at ? "" : at.error().text));
  return folder;
}

}  // namespace troupe::tests
