// Pairs the tensors of two checkpoints first, then compares the bytes of every pair in blocks.
#include "formats/report/diff.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "core/tensor_view.hpp"
#include "formats/names/name_map.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/source_reader.hpp"

namespace troupe::formats {
namespace {

/// Finds the tensors of one source by the names that tensors of another source have.
class tensors_by_name {
 public:
  explicit tensors_by_name(const tensor_source& s) {
    std::map<std::string, std::string> full;
    for (const auto& t : s.tensors) {
      const auto [at, fresh] = full.try_emplace(bare_name(t.name), t.name);
      if (!fresh && at->second != t.name) shorten_ = false;
      moments_ = moments_ || t.kind == tensor_kind::moment;
    }
    for (const auto& t : s.tensors) by_name_[key(t.name)].push_back(&t);
    std::map<std::string, std::vector<const tensor_entry*>> tied;
    for (const auto& t : s.tied)
      if (by_name_.find(key(t.name)) == by_name_.end()) tied[key(t.name)] = by_name_[key(t.of)];
    by_name_.merge(tied);
  }

  [[nodiscard]] bool has_moments() const { return moments_; }

  /// Returns the tensor that has the name, kind and moment of `t`; null if there is none.
  [[nodiscard]] const tensor_entry* same(const tensor_entry& t) const {
    for (const auto* other : of(t))
      if (other->kind == t.kind && other->moment == t.moment) return other;
    return nullptr;
  }
  /// Returns the most exact weights with `t`'s name (master before weight); null if there are none or `t` is a moment.
  [[nodiscard]] const tensor_entry* weights(const tensor_entry& t) const {
    const tensor_entry* best = nullptr;
    for (const auto* other : of(t))
      if (other->kind != tensor_kind::moment && (best == nullptr || other->kind < best->kind)) best = other;
    return t.kind == tensor_kind::moment ? nullptr : best;
  }

 private:
  [[nodiscard]] std::string key(const std::string& name) const { return shorten_ ? bare_name(name) : name; }
  [[nodiscard]] const std::vector<const tensor_entry*>& of(const tensor_entry& t) const {
    static const std::vector<const tensor_entry*> none;
    auto at = by_name_.find(key(t.name));
    if (at == by_name_.end()) at = by_name_.find(t.name);
    return at == by_name_.end() ? none : at->second;
  }

  bool shorten_ = true, moments_ = false;
  std::map<std::string, std::vector<const tensor_entry*>> by_name_;
};

/// Returns the tensor of the other source that `t` of `own` is compared with: the most exact weights are compared with
/// the most exact ones of the other source, any other tensor with one of its kind.
const tensor_entry* counterpart(const tensor_entry& t, const tensors_by_name& own, const tensors_by_name& other) {
  const auto* like = other.same(t);
  if (t.kind == tensor_kind::moment) return like;
  const auto* best = other.weights(t);
  if (own.weights(t) == &t) return best;
  return like == best ? nullptr : like;
}

struct counterparts {
  std::vector<std::pair<const tensor_entry*, const tensor_entry*>> pairs;
  diff_report report;
};

/// Pairs the tensors of both sources by name, and reports tensors without a counterpart.
counterparts pair_up(const tensor_source& first, const tensor_source& second) {
  counterparts out;
  const tensors_by_name one(first), two(second);
  std::set<const tensor_entry*> taken;
  const auto alone = [&](const tensor_entry& t, const tensors_by_name& other, const tensors_by_name& own, bool second) {
    if (t.kind == tensor_kind::moment && !other.has_moments()) {
      ++out.report.left_out_moments;
    } else if (other.weights(t) != nullptr && own.weights(t) != &t) {
      ++out.report.left_out_weights;
    } else {
      const auto kind = second ? difference_kind::only_in_second : difference_kind::only_in_first;
      out.report.differences.push_back(
          {shown(t), kind, 0, 0, 0, fmt::format("{} is only in the {}", shown(t), second ? "second" : "first")});
    }
  };
  for (const auto& t : first.tensors) {
    const auto* other = counterpart(t, one, two);
    if (other == nullptr) {
      alone(t, two, one, false);
      continue;
    }
    out.pairs.emplace_back(&t, other);
    taken.insert(other);
  }
  for (const auto& t : second.tensors) {
    if (taken.contains(&t)) continue;
    // A tensor of `second` that is in no pair yet has a counterpart if only `first` ties its name to another tensor.
    const auto* other = counterpart(t, two, one);
    if (other == nullptr)
      alone(t, one, two, true);
    else
      out.pairs.emplace_back(other, &t);
  }
  return out;
}

bool same_cut_and_digests(const tensor_entry& a, const tensor_entry& b) {
  return a.cut == b.cut && std::equal(a.pieces.begin(), a.pieces.end(), b.pieces.begin(), b.pieces.end(),
                                      [](const piece& p, const piece& q) {
                                        return p.share == q.share && p.first == q.first && p.count == q.count &&
                                               p.digest == q.digest;
                                      });
}

/// Returns an element as a number of the one type that represents both every int64 and every fp64.
long double value_at(const std::vector<std::byte>& of, core::dtype type, size_t i) {
  const std::byte* at = of.data() + i * core::size_of(type);
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<long double>(value);
  };
  static_assert(std::numeric_limits<long double>::digits >= 64);
  switch (type) {
    case core::dtype::i64:
      return as(int64_t{});
    case core::dtype::i32:
      return as(int32_t{});
    case core::dtype::i16:
      return as(int16_t{});
    case core::dtype::i8:
      return as(int8_t{});
    case core::dtype::u8:
    case core::dtype::boolean:
      return as(uint8_t{});
    default:
      break;
  }
  double out = 0;
  cast_elements(type, at, core::dtype::f64, reinterpret_cast<std::byte*>(&out), 1);
  return out;
}

long double distance(long double a, long double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const auto d = std::abs(a - b);
  return std::isnan(d) ? std::numeric_limits<long double>::infinity() : d;
}

struct content_difference {
  uint64_t first = 0, elements = 0;
  double largest = 0;
};

/// Compares the contents of paired tensors, and reports the bytes compared so far as progress.
class comparer {
 public:
  comparer(storage::file_system& files, const tensor_source& a, const tensor_source& b, const diff_options& options,
           uint64_t total)
      : one_(a, files), two_(b, files), options_(options), total_(total) {}

  core::result<content_difference> compare(const tensor_entry& a, const tensor_entry& b) {
    content_difference out;
    const uint64_t elements = core::numel_of(a.shape), step = read_block_bytes / 8;
    const size_t size_a = core::size_of(a.type), size_b = core::size_of(b.type);
    for (uint64_t first = 0; first < elements; first += step) {
      const auto n = static_cast<size_t>(std::min(step, elements - first));
      x_.resize(n * size_a), y_.resize(n * size_b);
      TROUPE_TRY(one_.read(a, first, n, x_));
      TROUPE_TRY(two_.read(b, first, n, y_));
      if (a.type != b.type || x_ != y_) count(a.type, b.type, first, n, out);
      if (!advance(n * size_a)) return fail(core::error_kind::stopped, "stopped while comparing");
    }
    return out;
  }
  bool advance(uint64_t bytes) {
    done_ += bytes;
    return !options_.progress || options_.progress(done_, total_);
  }
  [[nodiscard]] uint64_t done() const { return done_; }

 private:
  void count(core::dtype a, core::dtype b, uint64_t first, size_t n, content_difference& out) const {
    const size_t size = core::size_of(a);
    for (size_t i = 0; i < n; ++i) {
      if (a == b && std::memcmp(x_.data() + i * size, y_.data() + i * size, size) == 0) continue;
      const auto d = distance(value_at(x_, a, i), value_at(y_, b, i));
      // Equal values with different bits (0 and -0, NaNs) count as a difference only if both tensors have one type and
      // no tolerance is set.
      if (d <= options_.tolerance.value_or(-1) || (a != b && d == 0)) continue;
      if (out.elements++ == 0) out.first = first + i;
      out.largest = std::max(out.largest, static_cast<double>(d));
    }
  }

  source_reader one_, two_;
  const diff_options& options_;
  uint64_t total_, done_ = 0;
  std::vector<std::byte> x_, y_;
};

}  // namespace

core::result<diff_report> diff_sources(storage::file_system& files, const tensor_source& first,
                                       const tensor_source& second, const diff_options& options) {
  auto [pairs, out] = pair_up(first, second);
  uint64_t total = 0;
  for (const auto& [a, b] : pairs)
    if (a->shape == b->shape) total += bytes_of_tensor(*a);
  comparer blocks(files, first, second, options, total);
  for (const auto& [a, b] : pairs) {
    const auto name = shown(*a);
    ++out.tensors;
    if (a->shape != b->shape) {
      out.differences.push_back({name, difference_kind::shape, 0, 0, 0,
                                 fmt::format("{} is {} in the first, {} in the second", name, a->shape, b->shape)});
      continue;
    }
    content_difference found;
    if (first.has_digests && second.has_digests && a->type == b->type && same_cut_and_digests(*a, *b)) {
      if (!blocks.advance(bytes_of_tensor(*a))) return fail(core::error_kind::stopped, "stopped while comparing");
    } else if (a->type != b->type && !(is_floating(a->type) && is_floating(b->type)) && !options.tolerance) {
      if (!blocks.advance(bytes_of_tensor(*a))) return fail(core::error_kind::stopped, "stopped while comparing");
      found.largest = std::numeric_limits<double>::quiet_NaN();
    } else {
      TROUPE_ASSIGN(auto compared, blocks.compare(*a, *b));
      found = compared;
    }
    if (a->type != b->type && !options.tolerance) {
      auto text =
          fmt::format("{} is {} in the first, {} in the second", name, core::name_of(a->type), core::name_of(b->type));
      if (!std::isnan(found.largest))
        text +=
            found.elements == 0 ? ", with equal values" : fmt::format("; they differ by up to {:.3g}", found.largest);
      out.differences.push_back({name, difference_kind::type, found.first, found.elements, found.largest, text});
    } else if (found.elements > 0) {
      out.differences.push_back({name, difference_kind::content, found.first, found.elements, found.largest,
                                 fmt::format("{} differs from element {} on: {} of {} elements, by up to {:.3g}", name,
                                             found.first, found.elements, core::numel_of(a->shape), found.largest)});
    }
  }
  out.bytes = blocks.done();
  std::stable_sort(out.differences.begin(), out.differences.end(),
                   [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
  return std::move(out);
}

}  // namespace troupe::formats
