#include "data/source_summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <utility>

#include "core/text.hpp"

namespace troupe::data {
namespace {

/// Number of left-out files that the sentence names.
constexpr size_t most_named = 6;

std::string name_below(const std::filesystem::path& root, const std::filesystem::path& file) {
  std::error_code ec;
  if (!std::filesystem::is_directory(root, ec)) return core::shown(file.filename().string());
  const auto whole = std::filesystem::canonical(root, ec);
  return core::shown(file.lexically_relative(ec ? root : whole).string());
}

std::string counted(uint64_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

/// Returns the part of a source's sentence about packed samples.
std::string packed_words(const source_summary& x) {
  const double filled = 100.0 * static_cast<double>(x.tokens) / static_cast<double>(x.rows * x.row_tokens);
  std::string out =
      fmt::format("{}, {}, {} of them {}, in {} of {} ({:.0f} % filled), ", counted(x.documents, "sample"),
                  counted(x.tokens, "token"), x.counted, x.counted == 1 ? "counts" : "count", counted(x.rows, "row"),
                  x.row_tokens, filled);
  for (const auto& [n, what] : {std::pair(x.cut, "cut"), std::pair(x.dropped, "dropped")})
    if (n > 0) out += fmt::format("{} longer than {} tokens {}, ", counted(n, "sample"), x.row_tokens, what);
  return out;
}

}  // namespace

void count_file(source_summary& to, const std::filesystem::path& root, const std::filesystem::path& file,
                uint64_t bytes) {
  ++to.files;
  to.bytes += bytes;
  to.last = name_below(root, file);
  if (to.files == 1) to.first = to.last;
  to.has_keys = to.has_keys || has_keys(kind_of(file));
}

void name_left_out(source_summary& to, const std::filesystem::path& root, const std::vector<left_out_file>& files) {
  for (const auto& x : files) to.left_out.push_back(fmt::format("{} ({})", name_below(root, x.path), x.why));
}

std::string sentence_of(const source_summary& x, const std::string& name) {
  std::string out = fmt::format("'{}': ", core::shown(name));
  if (x.rows > 0) {
    out += packed_words(x) + counted(x.bytes, "byte") + " in ";
  } else {
    if (x.knows_documents) out += counted(x.documents, "document") + ", ";
    out += fmt::format("{}, {} in ", counted(x.tokens, "token"), counted(x.bytes, "byte"));
  }
  out += x.files == 1 ? x.first : fmt::format("{}, {} to {}", counted(x.files, "file"), x.first, x.last);
  if (!x.knows_documents) out += "; where its documents begin is unknown";
  if (x.rows == 0 && x.knows_documents && x.documents > 1 && !x.ends_documents)
    out += "; there is no end-of-text token between the documents";
  if (x.left_out.empty()) return out;
  const size_t named = std::min(most_named, x.left_out.size());
  out += fmt::format("; left out: {}", fmt::join(std::span(x.left_out).first(named), ", "));
  return named == x.left_out.size() ? out : out + fmt::format(" and {} more", x.left_out.size() - named);
}

}  // namespace troupe::data
