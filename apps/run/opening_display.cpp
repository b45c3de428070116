#include "apps/run/opening_display.hpp"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace troupe::apps {

opening_display::opening_display(verbosity said)
    : quiet_(said == verbosity::quiet), terminal_(::isatty(STDERR_FILENO) != 0), next_(begin_ + opening_glance) {}

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
  std::fprintf(stderr, "%stroupe: %s, %.0f s", terminal_ ? "\r\x1b[K" : "", p.phase.c_str(), seconds);
  if (p.share >= 0) std::fprintf(stderr, ", %.0f %%", 100 * p.share);
  if (!terminal_) std::fprintf(stderr, "\n");
  std::fflush(stderr);
  drawn_ = terminal_;
}

void opening_display::clear() {
  if (drawn_) std::fprintf(stderr, "\r\x1b[K");
  drawn_ = false;
}

bool show_reading(const data::reading_progress& p, const interrupts& stop) {
  if (::isatty(STDERR_FILENO) != 0) {
    const bool done = p.bytes_done >= p.bytes;
    std::fprintf(stderr, "\r\x1b[K");
    if (!done)
      std::fprintf(stderr, "reading %s: %.0f %%", std::filesystem::path(p.file).filename().c_str(),
                   100 * double(p.bytes_done) / double(p.bytes));
    std::fflush(stderr);
  }
  return !stop.requested();
}

}  // namespace troupe::apps
