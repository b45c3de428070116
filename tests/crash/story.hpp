// Defines the operations of a run on its folder of checkpoints, and the state that the folder must have after an
// interruption at any instant.
#pragma once

#include <functional>
#include <map>

#include "checkpoint/commit/retention.hpp"
#include "storage/files/working_folder.hpp"
#include "tests/checkpoint/native_samples.hpp"

namespace troupe::tests {

/// Three steps, of which the second is saved again with other bytes, in three files each; then retention and clean-up.
struct story {
  struct chapter {
    uint64_t step, seed;
  };
  static constexpr std::array<chapter, 4> chapters{{{10, 1}, {20, 2}, {20, 3}, {30, 4}}};
  static constexpr uint32_t writers = 3;

  static const std::vector<sample_tensor>& samples(uint64_t seed) {
    static std::map<uint64_t, std::vector<sample_tensor>> all;
    auto& out = all[seed];
    if (out.empty()) out = sample_tensors(seed);
    return out;
  }

  static core::result<std::filesystem::path> save(storage::file_system& files, const std::filesystem::path& at,
                                                  const chapter& c) {
    checkpoint::manifest m;
    m.run.seed = c.seed;
    return save_sample(files, at, c.step, samples(c.seed), writers, m, storage::random_save_id());
  }

  /// Returns the number of chapters whose commit returned; if the story was interrupted, the next chapter may be
  /// committed, too. Calls `note` after each chapter; `why` receives the error that ended the story.
  static size_t tell(storage::file_system& files, const std::filesystem::path& at,
                     const std::function<void()>& note = {}, std::string* why = nullptr) {
    size_t done = 0;
    const auto good = [why](const auto& r) {
      if (!r && why != nullptr) *why = r.error().text;
      return r.has_value();
    };
    for (const auto& c : chapters) {
      if (!good(checkpoint::remove_leftovers(files, at))) return done;
      if (!good(save(files, at, c))) return done;
      ++done;
      if (note) note();
      if (!good(checkpoint::apply_retention(files, at, {.keep_last = 2}))) return done;
    }
    return done;
  }

  /// Checks a folder after a crash that followed `done` commits: the newest committed checkpoint verifies before and
  /// after the clean-up, the clean-up reports everything that was half-written, and `latest` names that checkpoint.
  static void check(storage::file_system& files, const std::filesystem::path& at, size_t done) {
    for (int cleaned = 0; cleaned < 2; ++cleaned) {
      const auto found = checkpoint::open_checkpoint(files, at);
      if (!found) {
        BOOST_TEST(done == 0U, found.error().text);
      } else {
        // The chapter that was interrupted may be complete.
        const size_t last = std::min(done, chapters.size() - 1);
        const uint64_t seed = found->content.run.seed.value_or(0);
        BOOST_REQUIRE(seed >= 1);
        const bool fits = seed == done || seed == last + 1;
        BOOST_TEST(fits, "chapter " << seed << " behind " << done << " commits");
        check_whole(files, found->folder);
        BOOST_TEST(to_hex((*find_tensor(found->content, "h.0.bias", formats::tensor_kind::master)).pieces[0].digest) ==
                   to_hex(storage::digest_of(samples(seed)[4].data)));
        if (cleaned == 1) {
          const auto latest = check_ok(checkpoint::read_latest(files, at));
          BOOST_TEST((*latest)->folder == found->folder.filename().string());
        }
      }
      if (cleaned == 0) clean(files, at);
    }
    const auto all = files.list(at);
    if (!all) return;  // the crash happened before the folder was created
    for (const auto& e : *all) {
      BOOST_TEST((e.name == "latest" || checkpoint::step_of(e.name)), e.name << " stayed");
      // A checkpoint's name never belongs to a part of one.
      if (e.kind == storage::entry_kind::folder) check_whole(files, at / e.name);
    }
  }

 private:
  static void check_whole(storage::file_system& files, const std::filesystem::path& folder) {
    const auto report = check_ok(checkpoint::verify_checkpoint(files, folder));
    BOOST_TEST(report->damages == 0U);
    BOOST_TEST(report->pieces > 0U);
  }

  static void clean(storage::file_system& files, const std::filesystem::path& at) {
    std::vector<std::string> odd;
    if (const auto all = files.list(at))
      for (const auto& e : *all)
        if (e.name != "latest" && !checkpoint::step_of(e.name)) odd.push_back(e.name);
    const auto left = check_ok(checkpoint::remove_leftovers(files, at));
    std::vector<std::string> said;
    for (const auto& l : *left) said.push_back(l.name);
    BOOST_TEST(said == odd, boost::test_tools::per_element());
  }
};

}  // namespace troupe::tests
