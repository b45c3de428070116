// Counts open files, shared memory, threads and resident memory of each process of a job while it is paused.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/apps/topology.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/places.hpp"
#include "tests/sanitizer_options.hpp"

namespace troupe::tests {

/// Resources of a process.
struct held {
  uint64_t descriptors = 0, memory_files = 0, threads = 0;
  uint64_t resident_bytes = 0;  ///< resident bytes without memory shared by several processes
  /// Bytes of mapped memory files, counted as a whole: pages of a message buffer become resident only when they are
  /// first written, so resident bytes would vary.
  uint64_t shared_bytes = 0;
};

inline std::string text_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline held held_by(const std::filesystem::path& process) {
  held out;
  std::error_code e;
  for (const auto& one : std::filesystem::directory_iterator(process / "fd", e)) {
    ++out.descriptors;
    out.memory_files += std::filesystem::read_symlink(one.path(), e).string().starts_with("/memfd:");
  }
  std::ifstream status(process / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) out.threads = std::stoull(line.substr(8));
    if (line.starts_with("RssAnon:") || line.starts_with("RssFile:"))
      out.resident_bytes += std::stoull(line.substr(8)) * 1024;
  }
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:") == std::string::npos) continue;
    const size_t dash = line.find('-');
    out.shared_bytes += std::stoull(line.substr(dash + 1), nullptr, 16) - std::stoull(line, nullptr, 16);
  }
  return out;
}

/// Returns the resources of each process of the job that runs in `folder`; the keys are "place 1", "train", "agent
/// certs/b".
inline std::map<std::string, held> held_in(const std::filesystem::path& folder) {
  std::map<std::string, held> out;
  std::error_code e;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", e)) {
    if (std::filesystem::read_symlink(entry.path() / "cwd", e) != folder || e) continue;
    const auto command = text_of_file(entry.path() / "cmdline"), environment = text_of_file(entry.path() / "environ");
    const auto link = environment.find("TROUPE_LINK=");
    std::string name = command.find("agent") != std::string::npos ? "agent " : "train";
    if (link != std::string::npos)
      name = "place " + std::string(environment.c_str() + environment.find(':', link) + 1);
    else if (name == "agent ")
      name += std::string(command.c_str() + command.find("certs/"));
    out[name] = held_by(entry.path());
  }
  return out;
}

/// Resources that a process may have in addition at the late count. A save in memory or on disk may be in progress at
/// either count.
struct allowed {
  uint64_t resident_bytes;
  uint64_t descriptors = 6, memory_files = 4;
  uint64_t shared_bytes = uint64_t{1} << 20;
};

/// Checks that no process has more resources than before, except those in `more`.
inline void same(const std::map<std::string, held>& before, const std::map<std::string, held>& after,
                 const allowed& more) {
  BOOST_TEST(!before.empty());
  for (const auto& [name, was] : before) {
    BOOST_TEST_REQUIRE(after.contains(name), name);
    const held& is = after.at(name);
    const std::string found = fmt::format(
        "{}: descriptors {} -> {}, memory files {} -> {}, threads {} -> {}, resident {} -> {} KB, shared {} "
        "-> {} KB",
        name, was.descriptors, is.descriptors, was.memory_files, is.memory_files, was.threads, is.threads,
        was.resident_bytes / 1000, is.resident_bytes / 1000, was.shared_bytes / 1000, is.shared_bytes / 1000);
    BOOST_TEST_CONTEXT(found) {
      BOOST_TEST_MESSAGE(found);
      BOOST_TEST(is.descriptors <= was.descriptors + more.descriptors);
      BOOST_TEST(is.memory_files <= was.memory_files + more.memory_files);
      BOOST_TEST(is.threads <= was.threads + 1);
      // The red zones of the address sanitizer double the size of small allocations.
      BOOST_TEST(is.resident_bytes <= was.resident_bytes + (has_address_sanitizer ? 2 : 1) * more.resident_bytes);
      BOOST_TEST(is.shared_bytes <= was.shared_bytes + more.shared_bytes);
    }
  }
}

/// Pauses a run after given steps and counts the resources of its processes.
struct watched {
  std::filesystem::path folder;
  std::string output;

  /// Waits for `step` and for `ranks` ranks (0: any number), pauses the run and returns the resources of its processes.
  std::map<std::string, held> paused_after(process& run, uint64_t step, size_t ranks = 0) const {
    BOOST_TEST_REQUIRE(run.wait_for(fmt::format("step {}/", step)));
    pause();
    while (ranks > 0 && ranks_there() != ranks) {
      BOOST_TEST_REQUIRE(ask({"resume", output}).code == 0);
      pause();
    }
    ::usleep(300'000);  // waits for writes that overlap with training to end
    auto out = held_in(folder);
    BOOST_TEST_REQUIRE(ask({"resume", output}).code == 0);
    return out;
  }
  /// Returns the number of ranks in the current term; 0 if no process answers, which happens between two terms.
  [[nodiscard]] size_t ranks_there() const {
    const auto told = ask({"diagnose", output, "--json"});
    size_t out = 0;
    for (size_t at = 0; (at = told.out.find("\"rank\":", at)) != std::string::npos; ++at) ++out;
    return out;
  }

 private:
  [[nodiscard]] finished ask(std::vector<std::string> what) const {
    what.insert(what.begin(), places::troupe_binary);
    return troupe::tests::run(what, folder);
  }
  void pause() const { check_exit(0, ask({"pause", output})); }
};

/// A job that runs until it is stopped, with steps as short as they can be.
inline const std::string tiny =
    "model: {model_type: gpt2, n_layer: 1, n_embd: 16, n_head: 2, n_positions: 16, vocab_size: 256}\n"
    "data: {text: corpus.txt}\n"
    "seed: 1\n"
    "steps: 1000000\n"
    "steps_per_print: 10\n"
    "train_batch_size: 4\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
    "parallel: {data: 2}\n"
    "zero_optimization: {stage: 2}\n"
    "telemetry: {report: false, trace: false}\n";

/// Returns the step at which resources are counted late; `make soak` sets a later one.
inline uint64_t late_step() { return wanted_cases("TROUPE_STEPS", 400); }

/// Returns the term in which resources are counted late, one with two ranks; `make soak` sets a later one.
inline uint64_t late_term() { return wanted_cases("TROUPE_TERMS", 36) / 2 * 2; }

/// Allowed growth between the two counts: the allocator keeps less than a thousand bytes for each step.
inline constexpr allowed few_bytes{uint64_t{3} << 20};
/// Allowed growth between terms: a term maps and allocates a third of a MiB, threads that end leave malloc arenas, and
/// a term that has just begun has fewer saves in memory.
inline constexpr allowed less_than_terms{uint64_t{8} << 20, 10, 8};

/// A fixture: sanitizers return freed memory at once.
struct memory_is_given_back {
  memory_is_given_back() { add_sanitizer_options(no_kept_memory); }
};

}  // namespace troupe::tests
