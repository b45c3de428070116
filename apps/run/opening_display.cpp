#include "apps/run/opening_display.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "apps/base/error_line.hpp"
#include "apps/base/terminal.hpp"

namespace troupe::apps {

opening_display::opening_display(verbosity said)
    : quiet_(said == verbosity::quiet), terminal_(rewrites_lines(STDERR_FILENO)), next_(begin_ + opening_glance) {}

void opening_display::show(const actors::opening_progress& p) {
  const auto now = clock::now();
  if (p.phase != phase_) {
    clear();
    phase_ = p.phase;
    begin_ = now;
    next_ = now + opening_glance;
  }
  if (quiet_ || now < next_) return;
  next_ = terminal_ ? now + std::chrono::milliseconds(200) : now + opening_line_interval;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  std::string line = fmt::format("troupe: {}, {:.0f} s", p.phase, seconds);
  if (p.share >= 0) line += fmt::format(", {:.0f} %", 100 * p.share);
  if (terminal_)
    rewrite_line(stderr, STDERR_FILENO, line);
  else
    print_error_line(line);
  drawn_ = terminal_;
}

void opening_display::clear() {
  if (drawn_) rewrite_line(stderr, STDERR_FILENO, "");
  drawn_ = false;
}

bool show_reading(const data::reading_progress& p, const interrupts& stop) {
  if (rewrites_lines(STDERR_FILENO)) {
    const bool done = p.bytes_done >= p.bytes;
    rewrite_line(stderr, STDERR_FILENO,
                 done ? std::string()
                      : fmt::format("reading {}: {:.0f} %", std::filesystem::path(p.file).filename().string(),
                                    100 * double(p.bytes_done) / double(p.bytes)));
  }
  return !stop.requested();
}

}  // namespace troupe::apps
