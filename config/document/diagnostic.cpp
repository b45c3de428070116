#include "config/document/diagnostic.hpp"

#include <fmt/format.h>

#include "core/text.hpp"

namespace troupe::config {

std::string diagnostic::render() const {
  std::string out = file;
  if (line > 0) out += fmt::format(":{}:{}", line, column);
  out += severity == error ? ": error: " : ": warning: ";
  if (!key.empty()) out += key + ": ";
  return core::printable_line(out + text);
}

std::string render(const std::vector<diagnostic>& all) {
  std::string out;
  for (const diagnostic& d : all) out += d.render() + "\n";
  return out;
}

}  // namespace troupe::config
