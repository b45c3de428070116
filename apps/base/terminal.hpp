// Rewrites one line of a terminal again and again: checks that the terminal allows it, and how much text fits.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace troupe::apps {

/// True if the descriptor is a terminal with a cursor: no file, no pipe, and not the log of an editor or a batch system
/// (TERM=dumb, or unset).
inline bool rewrites_lines(int descriptor) {
  const char* const kind = std::getenv("TERM");
  return ::isatty(descriptor) != 0 && kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

inline unsigned terminal_columns(int descriptor) {
  constexpr unsigned unknown = 100;
  winsize w{};
  return ::ioctl(descriptor, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : unknown;
}

/// Returns the beginning of `text` that fits into one line of the terminal, because a wrapped line cannot be rewritten.
inline std::string_view fitting(std::string_view text, int descriptor) {
  const unsigned columns = terminal_columns(descriptor);
  size_t end = 0;
  for (unsigned shown = 1; end < text.size() && shown < columns; ++shown) do
      ++end;
    // Includes the remaining bytes of a UTF-8 character, so that none is split.
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U);
  return text.substr(0, end);
}

/// Replaces the text of the cursor's line; an empty text clears the line.
inline void rewrite_line(std::FILE* stream, int descriptor, std::string_view text) {
  const std::string_view shown = fitting(text, descriptor);
  std::fprintf(stream, "\r\x1b[K%.*s", static_cast<int>(shown.size()), shown.data());
  std::fflush(stream);
}

}  // namespace troupe::apps
