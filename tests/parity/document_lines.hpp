// Generates JSON lines whose documents are shorter or longer than the token rows of small jobs.
#pragma once

#include <string>

#include "tests/made_up_text.hpp"

namespace troupe::tests {

/// Returns JSON lines of 3 to 43 characters each, so that some rows hold several documents and some documents span
/// several rows.
inline std::string document_lines() {
  const std::string text = made_up_text(4096);
  std::string out;
  for (size_t first = 0, length = 3; first + length < text.size(); first += length, length = 3 + (length * 7) % 41) {
    out += "{\"text\": \"";
    for (const char c : text.substr(first, length)) out += c == '"' || c == '\\' || c < ' ' ? ' ' : c;
    out += "\"}\n";
  }
  return out;
}

}  // namespace troupe::tests
