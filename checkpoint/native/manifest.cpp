// Checks the rules that a manifest of a Troupe checkpoint must satisfy.
#include "checkpoint/native/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/tensor_view.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/tensors/tensor_shares.hpp"

namespace troupe::checkpoint {
namespace {

tl::unexpected<core::error> bad(std::string text) { return fail(error_kind::bad_input, std::move(text)); }

core::result<void> limited(const char* what, size_t count, size_t limit) {
  if (count <= limit) return {};
  return fail(error_kind::limit, fmt::format("it holds {} {}, at most {} are allowed", count, what, limit));
}

bool is_plain_file_name(std::string_view name) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         name.find_first_not_of(allowed) == std::string_view::npos && name != manifest_file_name;
}

core::result<void> check_files(const manifest& m) {
  TROUPE_TRY(limited("files", m.files.size(), max_shard_files));
  std::vector<std::string_view> names;
  for (const auto& f : m.files) {
    if (!is_plain_file_name(f.name))
      return bad(fmt::format("'{}' is not a plain file name in its folder", formats::shown(f.name)));
    if (f.bytes % formats::piece_alignment_bytes != 0 || f.bytes < formats::piece_alignment_bytes ||
        f.bytes > INT64_MAX)
      return bad(
          fmt::format("file '{}': {} bytes are not a multiple of {}", f.name, f.bytes, formats::piece_alignment_bytes));
    names.push_back(f.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) return bad(fmt::format("the file '{}' appears twice", *twice));
  return {};
}

core::result<void> check_pieces(const manifest& m, const formats::tensor_entry& t, uint64_t elements) {
  TROUPE_TRY(formats::check_shares(t, elements));
  const uint64_t element_bytes = core::size_of(t.type);
  for (const auto& p : t.pieces) {
    if (p.file >= m.files.size())
      return bad(fmt::format("tensor {}: file number {} does not exist: there are {} files", formats::shown(t), p.file,
                             m.files.size()));
    const auto& file = m.files[p.file];
    // The product does not overflow, because the tensor has at least as many bytes, which fit 63 bits.
    const uint64_t bytes = p.count * element_bytes;
    if (p.offset_bytes % formats::piece_alignment_bytes != 0 || p.offset_bytes < formats::piece_alignment_bytes)
      return bad(fmt::format("tensor {}: a piece cannot start at byte {} of '{}'", formats::shown(t), p.offset_bytes,
                             file.name));
    if (p.offset_bytes > file.bytes || bytes > file.bytes - p.offset_bytes)
      return bad(fmt::format("tensor {}: {} bytes at byte {} reach beyond the end of '{}', which has {}",
                             formats::shown(t), bytes, p.offset_bytes, file.name, file.bytes));
  }
  return {};
}

/// Checks that no byte of a file belongs to two pieces.
core::result<void> check_overlap(const manifest& m) {
  struct place {
    uint32_t file;
    uint64_t begin, end;
    const formats::tensor_entry* tensor;
  };
  std::vector<place> places;
  for (const auto& t : m.tensors)
    for (const auto& p : t.pieces)
      places.push_back({p.file, p.offset_bytes, p.offset_bytes + p.count * core::size_of(t.type), &t});
  std::sort(places.begin(), places.end(),
            [](const place& a, const place& b) { return std::tie(a.file, a.begin) < std::tie(b.file, b.begin); });
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i].file == places[i - 1].file && places[i].begin < places[i - 1].end)
      return bad(fmt::format("tensors {} and {} claim the same bytes of '{}' at byte {}",
                             formats::shown(*places[i - 1].tensor), formats::shown(*places[i].tensor),
                             m.files[places[i].file].name, places[i].begin));
  return {};
}

core::result<void> check_tensor(const manifest& m, const formats::tensor_entry& t) {
  if (t.name.empty() || t.name.size() > formats::max_name_bytes)
    return bad(fmt::format("a tensor's name has 1 to {} bytes, got {}", formats::max_name_bytes, t.name.size()));
  if ((t.kind == formats::tensor_kind::moment) == t.moment.empty() || t.moment.size() > formats::max_name_bytes)
    return bad(
        fmt::format("tensor {}: a moment must have a moment's name, and other kinds must not", formats::shown(t)));
  if (t.shape.size() > formats::max_tensor_dimensions)
    return bad(fmt::format("tensor {}: more than {} dimensions", formats::shown(t), formats::max_tensor_dimensions));
  const auto bytes = formats::bytes_of(t.type, t.shape);
  if (!bytes) return bad(fmt::format("tensor {}: its shape has more elements than a file can hold", formats::shown(t)));
  return check_pieces(m, t, *bytes / core::size_of(t.type));
}

bool holds_name(const formats::tensor_list& m, std::string_view name) {
  const auto at = std::lower_bound(m.tensors.begin(), m.tensors.end(), name,
                                   [](const formats::tensor_entry& t, std::string_view n) { return t.name < n; });
  return at != m.tensors.end() && at->name == name;
}

core::result<void> check_tied(const formats::tensor_list& m) {
  TROUPE_TRY(limited("tied names", m.tied.size(), formats::max_tensors));
  for (size_t i = 0; i < m.tied.size(); ++i) {
    const auto& [name, of] = m.tied[i];
    if (name.empty() || name.size() > formats::max_name_bytes) return bad("a tied name is empty or too long");
    if (i > 0 && m.tied[i - 1].name >= name)
      return bad(fmt::format("the tied name '{}' is out of order", formats::shown(name)));
    if (holds_name(m, name)) return bad(fmt::format("'{}' is a tensor and tied to another", formats::shown(name)));
    if (!holds_name(m, of))
      return bad(fmt::format("'{}' is tied to '{}', which does not exist", formats::shown(name), formats::shown(of)));
  }
  return {};
}

core::result<void> check_order(const manifest& m) {
  const auto& order = m.run.parameter_order;
  TROUPE_TRY(limited("parameters in order", order.size(), formats::max_tensors));
  std::vector<std::string_view> names(order.begin(), order.end());
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    return bad(fmt::format("the parameter '{}' appears twice in the parameters' order", formats::shown(*twice)));
  for (const auto name : names)
    if (name.empty() || name.size() > formats::max_name_bytes)
      return bad("a name in the parameters' order is empty or too long");
  return {};
}

core::result<void> check_left_out(const run_state& r) {
  TROUPE_TRY(limited("decisions to leave samples out", r.left_out.size(), core::left_out_max));
  size_t ranges = 0;
  for (const auto& x : r.left_out) {
    const bool steps = x.first >= 1 && x.first <= x.last && x.last <= INT64_MAX;
    uint64_t end = 0;
    bool ascends = true;
    for (const auto& s : x.samples) {
      ascends = ascends && s.begin < s.end && s.end <= INT64_MAX && (end == 0 || s.begin > end);
      end = s.end;
    }
    if (!steps || !ascends || x.samples.empty())
      return bad(fmt::format("the samples left out in steps {}-{} are not valid", x.first, x.last));
    ranges += x.samples.size();
  }
  TROUPE_TRY(limited("ranges of samples left out", ranges, core::left_out_ranges_max));
  TROUPE_TRY(limited("recent losses", r.recent_losses.size(), max_recent_losses));
  for (const double loss : r.recent_losses)
    if (!std::isfinite(loss)) return bad("one of its recent losses is not finite");
  return {};
}

core::result<void> check_group_changes(const run_state& r) {
  TROUPE_TRY(limited("changes of optimizer groups", r.group_changes.size(), max_group_changes));
  const auto is_valid = [](const std::optional<double>& x) { return !x || (std::isfinite(*x) && *x >= 0); };
  for (const auto& x : r.group_changes)
    if (!is_valid(x.learning_rate) || !is_valid(x.weight_decay))
      return bad("a rate or decay of one of its optimizer groups is negative or not finite");
  return {};
}

core::result<void> check_data(const formats::data_record& d) {
  TROUPE_TRY(limited("sources of its data", d.sources.size(), formats::max_recorded_sources));
  TROUPE_TRY(limited("validation sets of its data", d.validation.size(), formats::max_recorded_sources));
  if (!(d.validation_fraction >= 0 && d.validation_fraction < 1))
    return bad("its validation fraction must be at least 0 and below 1");
  return {};
}

}  // namespace

core::result<void> check_manifest(const manifest& m) {
  TROUPE_TRY(limited("tensors", m.tensors.size(), formats::max_tensors));
  size_t pieces = 0;
  for (const auto& t : m.tensors) pieces += t.pieces.size();
  TROUPE_TRY(limited("pieces", pieces, formats::max_pieces));
  TROUPE_TRY(check_files(m));
  for (size_t i = 0; i < m.tensors.size(); ++i) {
    const auto& t = m.tensors[i];
    if (i > 0 && !formats::in_order(m.tensors[i - 1], t))
      return bad(fmt::format("tensor {} appears twice or out of order", formats::shown(t)));
    TROUPE_TRY(check_tensor(m, t));
  }
  TROUPE_TRY(check_overlap(m));
  TROUPE_TRY(check_tied(m));
  TROUPE_TRY(check_order(m));
  if (m.run.loss_scale && !std::isfinite(m.run.loss_scale->cur_scale)) return bad("its loss scale is not finite");
  TROUPE_TRY(check_left_out(m.run));
  TROUPE_TRY(check_group_changes(m.run));
  if (m.run.data) TROUPE_TRY(check_data(*m.run.data));
  TROUPE_TRY(limited("ranges of inputs", m.run.input_ranges.size(), formats::max_tensors));
  for (const auto& x : m.run.input_ranges)
    if (x.layer.size() > formats::max_name_bytes || !std::isfinite(x.least) || !std::isfinite(x.largest) ||
        x.least > x.largest)
      return bad(fmt::format("the range of the input of '{}' is not valid", formats::shown(x.layer)));
  if (m.committed_unix_ns > INT64_MAX) return bad("its time of commit is out of range");
  return {};
}

}  // namespace troupe::checkpoint
