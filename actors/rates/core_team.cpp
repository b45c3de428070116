#include "actors/rates/core_team.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <latch>
#include <memory>
#include <system_error>
#include <thread>

#include "actors/aten_threads.hpp"
#include "core/clock.hpp"
#include "core/system/float_environment.hpp"

namespace troupe::actors {
namespace {

constexpr size_t least_repetitions = 3;

/// Times that one thread of the team has measured, or why it has not.
struct team_member {
  std::vector<double> seconds;
  std::string failed;
};

/// Makes and repeats the operation on the calling thread. All threads begin together, after each has made its operation
/// or failed.
void repeat_as_member(const operation_maker& make, double seconds, std::latch& together, team_member& to) {
  const core::usual_float_environment numbers;
  keep_to_one_aten_thread();
  std::function<void()> work;
  try {
    work = make();
    work();
    constexpr size_t expected = size_t{1} << 16;
    to.seconds.reserve(expected);
  } catch (const std::exception& e) {
    to.failed = e.what();
  }
  together.arrive_and_wait();
  if (!to.failed.empty()) return;
  try {
    const int64_t begin = core::now_ns();
    while (to.seconds.size() < least_repetitions || core::seconds_since(begin) < seconds) {
      const int64_t before = core::now_ns();
      work();
      to.seconds.push_back(core::seconds_since(before));
    }
  } catch (const std::exception& e) {
    to.failed = e.what();
  }
}

}  // namespace

core::result<std::vector<double>> repeated_on_cores(uint32_t threads, double seconds, const operation_maker& make) {
  std::vector<team_member> members(threads);
  std::latch together(threads);
  std::vector<std::thread> started;
  std::string refused;
  try {
    started.reserve(threads);
    for (auto& member : members) started.emplace_back([&] { repeat_as_member(make, seconds, together, member); });
  } catch (const std::system_error& e) {
    refused = e.what();
    together.count_down(static_cast<std::ptrdiff_t>(threads - started.size()));
  }
  for (auto& thread : started) thread.join();
  std::vector<double> out;
  for (auto& member : members) {
    if (refused.empty()) refused = member.failed;
    out.insert(out.end(), member.seconds.begin(), member.seconds.end());
  }
  if (!refused.empty())
    return core::fail(core::error_kind::limit,
                      fmt::format("cannot measure on {} cores at the same time: {}", threads, refused));
  std::ranges::sort(out);
  return out;
}

middle_half middle_of(const std::vector<double>& ascending) {
  const auto at = [&](size_t quarter) { return ascending[(ascending.size() - 1) * quarter / 4]; };
  return {at(1), at(2), at(3)};
}

}  // namespace troupe::actors
