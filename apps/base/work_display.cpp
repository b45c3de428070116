#include "apps/base/work_display.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "apps/base/stop_request.hpp"
#include "apps/base/terminal.hpp"
#include "core/clock.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {
constexpr int64_t first_after_ns = 200'000'000, every_ns = 100'000'000;
}  // namespace

work_display::work_display(std::string what, verbosity said)
    : what_(std::move(what)),
      shown_(said != verbosity::quiet && rewrites_lines(STDERR_FILENO)),
      begin_(core::now_ns()),
      next_(begin_ + first_after_ns) {}

work_display::~work_display() { clear(); }

storage::progress_function work_display::progress() {
  return [this](uint64_t done, uint64_t total) {
    done_ = done;
    if (shown_) show(done, total);
    return !stop_request::made();
  };
}

void work_display::show(uint64_t done, uint64_t total) {
  const int64_t now = core::now_ns();
  if (now < next_ || done == 0) return;
  next_ = now + every_ns;
  const double rate = static_cast<double>(done) / seconds();
  const double left = static_cast<double>(total - std::min(done, total)) / rate;
  const double percent = total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 100.0;
  rewrite_line(
      stderr, STDERR_FILENO,
      fmt::format("{} {} of {}, {:.0f} %, {}/s, ETA {}", what_, core::human_bytes(done), core::human_bytes(total),
                  percent, core::human_bytes(static_cast<uint64_t>(rate)), core::clock_text(left)));
  drawn_ = true;
}

void work_display::clear() {
  if (drawn_) rewrite_line(stderr, STDERR_FILENO, "");
  drawn_ = false;
}

double work_display::seconds() const { return static_cast<double>(core::now_ns() - begin_) / 1e9; }

}  // namespace troupe::apps
