#include "apps/run/launched_train.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "apps/base/configuration.hpp"
#include "apps/run/train.hpp"
#include "apps/run/train_options.hpp"

namespace troupe::apps {
namespace {

config::load_result load(train_arguments a, const std::vector<std::string>& more) {
  a.set.insert(a.set.end(), more.begin(), more.end());
  return read_configuration(a, a.steps);
}

/// Returns the sets of settings with which the file is tried, in this order: none, the address of the leader, and both
/// again with the number of ranks. All of them follow from the environment alone; the keys of some files are valid only
/// with such settings.
std::vector<std::vector<std::string>> settings_to_try(const launch_place& place) {
  std::vector<std::vector<std::string>> out{{}};
  if (const auto leader = leader_of(place); !leader.empty()) out.push_back({"cluster.listen=" + leader});
  if (const uint32_t ranks = ranks_of(place); ranks > 1)
    for (size_t i = 0, n = out.size(); i < n; ++i) {
      out.push_back(out[i]);
      out.back().push_back(fmt::format("parallel.ranks={}", ranks));
    }
  return out;
}

/// True if the diagnostics `now` are more helpful than `before`: there are not more of them, and none is about
/// parallel.ranks, which the file does not contain.
bool says_more(const std::vector<config::diagnostic>& now, const std::vector<config::diagnostic>& before) {
  return now.size() <= before.size() && std::ranges::find(now, "parallel.ranks", &config::diagnostic::key) == now.end();
}

/// Loads the file with the first of the settings_to_try() with which it is valid, and stores them in `taken`.
config::load_result load_as_launched(const train_arguments& a, const launch_place& place,
                                     std::vector<std::string>& taken) {
  std::optional<config::load_result> out;
  for (auto& settings : settings_to_try(place)) {
    auto file = load(a, settings);
    const bool is_good = file.has_value();
    if (is_good) taken = std::move(settings);
    if (!out || is_good || says_more(file.error(), out->error())) out = std::move(file);
    if (is_good) break;
  }
  return std::move(*out);
}

tl::unexpected<core::error> refused(const config::load_result& by) {
  return core::fail(core::error_kind::bad_input, config::render(by.error()));
}

tl::unexpected<core::error> says(const core::error& e) { return core::fail(e.kind, "troupe: error: " + e.text + "\n"); }

}  // namespace

core::result<std::optional<launched_train>> launched_train_of(int argc, char** argv) {
  // This machine has become the leader of a running job, whose arguments contain all settings that a launcher's
  // environment would add.
  if (std::getenv(continues_variable) != nullptr) return std::nullopt;
  if (!read_train_arguments(argc, argv)) return std::nullopt;
  const auto place = read_launch_place(own_environment());
  if (!place) return says(place.error());
  if (!*place) return std::nullopt;
  return launched_train_at(**place, argc, argv);
}

core::result<std::optional<launched_train>> launched_train_at(const launch_place& place, int argc, char** argv) {
  const auto a = read_train_arguments(argc, argv);
  if (!a) return std::nullopt;
  launched_train out;
  const auto file = load_as_launched(*a, place, out.job.settings);
  if (!file) return refused(file);
  auto job = launched_job_of(place, *file, own_host_name());
  if (!job) return says(job.error());
  job->settings.insert(job->settings.begin(), out.job.settings.begin(), out.job.settings.end());
  out.job = std::move(*job);
  if (out.job.role == launched_job::part::alone) return std::nullopt;
  if (out.job.role == launched_job::part::agent) {
    auto whole = load(*a, out.job.settings);
    if (!whole) return refused(whole);
    out.file = std::move(*whole);
  }
  out.arguments.assign(argv, argv + argc);
  for (const auto& s : out.job.settings) {
    out.arguments.emplace_back("--set");
    out.arguments.push_back(s);
  }
  return out;
}

void execute(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  for (const auto& x : arguments) pointers.push_back(const_cast<char*>(x.c_str()));  // execv does not change them
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
}

}  // namespace troupe::apps
