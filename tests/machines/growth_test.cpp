// Checks that the resources of a job do not grow with its steps or terms: counts open files, shared memory, threads and
// resident memory of each of its processes early and late, while the run is paused. `make test` runs a few hundred
// steps, `make soak` thousands.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/apps/topology.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/machines/small_job.hpp"
#include "tests/places.hpp"
#include "tests/sanitizer_options.hpp"

BOOST_AUTO_TEST_SUITE(growth)

using namespace troupe::tests;

namespace {

struct held {
  uint64_t descriptors = 0, memory_files = 0, threads = 0;
  uint64_t resident_bytes = 0;  ///< resident bytes without memory shared by several processes
  /// Bytes of mapped memory files, counted as a whole: pages of a message buffer become resident only when they are
  /// first written, so resident bytes would vary.
  uint64_t shared_bytes = 0;
};

std::string text_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

held held_by(const std::filesystem::path& process) {
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
std::map<std::string, held> held_in(const std::filesystem::path& folder) {
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

void same(const std::map<std::string, held>& before, const std::map<std::string, held>& after, const allowed& more) {
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
    what.insert(what.begin(), troupe::places::troupe_binary);
    return troupe::tests::run(what, folder);
  }
  void pause() const {
    const auto paused = ask({"pause", output});
    BOOST_TEST_REQUIRE(paused.code == 0, paused.err);
  }
};

const std::string tiny =
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
uint64_t late_step() { return wanted_cases("TROUPE_STEPS", 400); }

/// Returns the term in which resources are counted late, one with two ranks; `make soak` sets a later one.
uint64_t late_term() { return wanted_cases("TROUPE_TERMS", 36) / 2 * 2; }

/// Allowed growth between the two counts: the allocator keeps less than a thousand bytes for each step.
constexpr allowed few_bytes{uint64_t{3} << 20};
/// Allowed growth between terms: a term maps and allocates a third of a MiB, threads that end leave malloc arenas, and
/// a term that has just begun has fewer saves in memory.
constexpr allowed less_than_terms{uint64_t{8} << 20, 10, 8};

/// Checks that a run has no more resources after step `late` than after step `early`, except those in `more`. `ranks`:
/// number of ranks at both counts; 0: any number.
void stays_as_it_is(const std::vector<std::string>& keys, uint64_t early, uint64_t late,
                    const allowed& more = few_bytes, const std::vector<std::string>& further = {}, size_t ranks = 0) {
  const command_folder f(tiny);
  std::vector<std::string> command{troupe::places::troupe_binary, "train", "job.yaml", "--set", "output=out"};
  for (const auto& k : keys) command.insert(command.end(), {"--set", k});
  command.insert(command.end(), further.begin(), further.end());
  process run(command, f.folder.path());
  const watched at{f.folder.path(), "out"};
  const auto before = at.paused_after(run, early, ranks);
  const auto after = at.paused_after(run, late, ranks);
  run.send(SIGTERM);
  const auto ended = run.end();
  BOOST_TEST(ended.code == 128 + SIGTERM, ended.err);
  same(before, after, more);
}

struct memory_is_given_back {
  memory_is_given_back() { add_sanitizer_options(no_kept_memory); }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(steps_of_one_process_leave_nothing_behind, memory_is_given_back) {
  stays_as_it_is({}, 100, late_step() > 400 ? 20 * late_step() : 2 * late_step());
  stays_as_it_is({"checkpoint={every_steps: 20, keep_last: 2}", "telemetry.json_lines=true", "telemetry.report=true"},
                 100, late_step());
}

BOOST_FIXTURE_TEST_CASE(steps_of_several_processes_leave_nothing_behind, memory_is_given_back) {
  stays_as_it_is({"cluster.processes=ranks", "cluster.spares=1"}, 100, late_step());
  stays_as_it_is({"cluster.processes=ranks", "checkpoint={every_steps: 20, keep_last: 2}"}, 100, late_step());
}

BOOST_FIXTURE_TEST_CASE(terms_leave_nothing_behind_in_any_process, memory_is_given_back) {
  const uint64_t terms = late_term();
  std::string degrees = "2@0";
  for (uint64_t i = 1; i <= terms; ++i) degrees += fmt::format(",{}@{}", i % 2 == 0 ? 2 : 1, 4 * i);
  const uint64_t late = 4 * terms / 10 * 10 + 10;
  stays_as_it_is({"cluster.processes=ranks"}, 20, late, less_than_terms, {"--degrees", degrees}, 2);
  stays_as_it_is({}, 20, late, less_than_terms, {"--degrees", degrees}, 2);
}

namespace {

/// A job with one rank on each of three hosts.
struct three_hosts {
  scratch_folder file;
  job_on_hosts job;
  watched at{job.folder().path(), "lost"};

  three_hosts() : job(command(file), nullptr) {}

  /// Kills the process with this number and waits until the job has three ranks again.
  void lose_and_regain(uint32_t place) const {
    const auto before = job.places();
    BOOST_TEST_REQUIRE(before.contains(place));
    ::kill(before.at(place), SIGKILL);
    const auto is_back = [&] {
      const auto now = job.places();
      return now.contains(place) && now.at(place) != before.at(place) && at.ranks_there() == job_on_hosts::number;
    };
    bool there = is_back();
    for (int tries = 0; tries < 600 && !there; ++tries, there = is_back()) ::usleep(50'000);
    BOOST_TEST_REQUIRE(there, "place " << place << " is lost");
  }
  void end_well() {
    job.stop();
    const auto ended = job.first().end();
    BOOST_TEST(ended.code == 0, ended.err);
    for (uint32_t h = 1; h < job_on_hosts::number; ++h) BOOST_TEST(job.agent(h).end().code == 0);
  }

 private:
  static command_of_job command(const scratch_folder& file) {
    std::ofstream(file / "corpus.txt") << made_up_text(20'000);
    std::ofstream(file / "job.yaml") << tiny
                                     << "cluster: {hosts: [{name: a}, {name: b}, {name: c}], lost_after: 20s, "
                                        "restarts: {max: 1000000, backoff: 1ms}}\n";
    return {troupe::places::troupe_binary,
            (file / "job.yaml").string(),
            {"parallel.data=3", "train_batch_size=6", "checkpoint={every_steps: 20, keep_last: 2}"},
            {},
            false};
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(steps_of_several_hosts_leave_nothing_behind, memory_is_given_back) {
  three_hosts x;
  const auto before = x.at.paused_after(x.job.first(), 100), after = x.at.paused_after(x.job.first(), late_step());
  x.end_well();
  BOOST_TEST(before.size() == 6U);
  same(before, after, few_bytes);
}

BOOST_FIXTURE_TEST_CASE(terms_after_losses_leave_nothing_behind_on_any_host, memory_is_given_back) {
  three_hosts x;
  BOOST_TEST_REQUIRE(x.job.first().wait_for("step 20/"));
  const auto lose = [&](uint64_t times) {
    for (uint64_t i = 0; i < times; ++i) x.lose_and_regain(1 + i % 2);
    return x.at.paused_after(x.job.first(), 20, job_on_hosts::number);
  };
  const auto before = lose(2), after = lose(late_term() / 6);
  x.end_well();
  BOOST_TEST(before.size() == 6U);
  same(before, after, less_than_terms);
}

BOOST_AUTO_TEST_SUITE_END()
