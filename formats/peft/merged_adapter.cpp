#include "formats/peft/merged_adapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/math.hpp"
#include "core/text.hpp"
#include "formats/names/name_map.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/source/source_view.hpp"

namespace troupe::formats {
namespace {

/// Largest number of elements that are computed at a time.
constexpr uint64_t merged_at_once = uint64_t{1} << 16;

/// A weight of the base model and the two matrices of its adapter.
struct merged_weight {
  std::shared_ptr<const tensor_source> base;
  tensor_entry from;        ///< the weight in `base`
  std::vector<float> a, b;  ///< A (rank, in) and B (out, rank)
  uint64_t in = 0, out = 0, rank = 0;
  double scale = 1;
  bool is_in_out = false;  ///< true: the weight is (in, out); false: (out, in)

  [[nodiscard]] uint64_t bytes() const { return in * out * sizeof(float); }
  /// Returns element `i` of scale * B A in the order of the weight.
  [[nodiscard]] double change(uint64_t i) const {
    const uint64_t row = i / (is_in_out ? out : in), column = i % (is_in_out ? out : in);
    const uint64_t o = is_in_out ? column : row, x = is_in_out ? row : column;
    double sum = 0;
    for (uint64_t k = 0; k < rank; ++k) sum += double{b[o * rank + k]} * double{a[k * in + x]};
    return scale * sum;
  }
};

class merged_file final : public storage::input_file {
 public:
  merged_file(const merged_weight& weight, storage::file_system& files) : weight_(weight), files_(files) {}

  [[nodiscard]] uint64_t bytes() const override { return weight_.bytes(); }

  [[nodiscard]] core::result<size_t> read_at(uint64_t offset, std::span<std::byte> out) const override {
    const uint64_t end = std::min<uint64_t>(bytes(), offset + out.size());
    if (offset >= end) return size_t{0};
    source_reader reader(*weight_.base, files_);
    const uint64_t last = core::div_up(end, sizeof(float));
    std::vector<float> values;
    for (uint64_t first = offset / sizeof(float); first < last; first += values.size()) {
      values.resize(std::min(merged_at_once, last - first));
      TROUPE_TRY(reader.read_as(core::dtype::f32, weight_.from, first, values.size(),
                                std::as_writable_bytes(std::span(values))));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(double{values[i]} + weight_.change(first + i));
      const uint64_t begin = first * sizeof(float), from = std::max(begin, offset);
      const uint64_t to = std::min<uint64_t>(begin + values.size() * sizeof(float), end);
      std::memcpy(out.data() + (from - offset), reinterpret_cast<const std::byte*>(values.data()) + (from - begin),
                  to - from);
    }
    return static_cast<size_t>(end - offset);
  }

 private:
  const merged_weight& weight_;
  storage::file_system& files_;
};

class merged_view final : public source_view {
 public:
  explicit merged_view(merged_weight weight) : weight_(std::move(weight)) {}
  [[nodiscard]] core::result<std::unique_ptr<storage::input_file>> open(storage::file_system& files) const override {
    return std::make_unique<merged_file>(weight_, files);
  }
  [[nodiscard]] bool is_compressed() const override { return false; }

 private:
  merged_weight weight_;
};

const tensor_entry* base_weight(const tensor_source& s, const std::string& name) {
  for (const auto kind : {tensor_kind::master, tensor_kind::frozen, tensor_kind::weight})
    if (const auto* t = find_tensor(s, name, kind)) return t;
  return nullptr;
}

/// Adds the parts of one adapter to a source, one after the other.
class adapter_merge {
 public:
  /// `folder` has the parameters that replace the base's; null: there are none.
  adapter_merge(tensor_source base, low_rank_adapter adapter, std::shared_ptr<const peft_adapter> folder,
                bool is_in_out)
      : base_(std::make_shared<const tensor_source>(base)),
        out_(std::move(base)),
        names_(*base_),
        adapter_(std::move(adapter)),
        folder_(std::move(folder)),
        is_in_out_(is_in_out) {}

  core::result<tensor_source> run() {
    for (low_rank_layer& layer : adapter_.layers) TROUPE_TRY(add(layer));
    if (folder_ != nullptr)
      for (const adapter_parameter& p : folder_->parameters()) TROUPE_TRY(replace(p));
    // The new files have neither digests nor the header of a save.
    out_.has_digests = false;
    out_.save_id.reset();
    TROUPE_TRY(complete(out_));
    return std::move(out_);
  }

 private:
  [[nodiscard]] tl::unexpected<core::error> mismatch(const std::string& text) const {
    const std::string& of = adapter_.base;
    return core::fail(error_kind::mismatch,
                      fmt::format("'{}' is no adapter of '{}': {}{}", adapter_.place.string(), shown_place(*base_),
                                  text, of.empty() ? "" : fmt::format("; its base is '{}'", core::shown(of))));
  }
  /// Returns the weight of the base that the parameter `name` is.
  [[nodiscard]] core::result<const tensor_entry*> find(const std::string& name) const {
    const auto found = names_.find(name);
    const auto* const t = found ? base_weight(*base_, *found) : nullptr;
    if (t == nullptr) return mismatch(fmt::format("the base has no parameter '{}'", core::shown(name)));
    const auto shares = [&](const tied_name& tied) { return tied.name == *found || tied.of == t->name; };
    if (std::ranges::any_of(base_->tied, shares))
      return mismatch(
          fmt::format("the parameter '{}' has several names in the base, so that a change for one of them "
                      "would change all",
                      core::shown(name)));
    if (!is_floating(t->type))
      return mismatch(fmt::format("the parameter '{}' has no floating type in the base", core::shown(name)));
    return t;
  }
  /// Adds the adapter of one layer, whose matrices are moved out of `layer`.
  core::result<void> add(low_rank_layer& layer) {
    TROUPE_ASSIGN(const auto* t, find(layer.name + ".weight"));
    const auto in = static_cast<int64_t>(layer.in), out = static_cast<int64_t>(layer.out);
    const std::vector<int64_t> wanted = is_in_out_ ? std::vector{in, out} : std::vector{out, in};
    if (t->shape != wanted)
      return mismatch(fmt::format("layer '{}' has an adapter for a weight of shape {}, and the base's has {}",
                                  core::shown(layer.name), core::shape_text(wanted), core::shape_text(t->shape)));
    merged_weight w{.base = base_,
                    .from = *t,
                    .a = std::move(layer.a),
                    .b = std::move(layer.b),
                    .in = layer.in,
                    .out = layer.out,
                    .rank = layer.rank,
                    .scale = layer.scale,
                    .is_in_out = is_in_out_};
    const uint64_t bytes = w.bytes();
    put(*t, core::dtype::f32, 0,
        {.path = out_.folder / ("the merged weight of " + layer.name),
         .bytes = bytes,
         .view = std::make_shared<const merged_view>(std::move(w))});
    return {};
  }
  core::result<void> replace(const adapter_parameter& p) {
    TROUPE_ASSIGN(const auto* t, find(p.name));
    if (t->shape != p.value->shape)
      return mismatch(fmt::format("parameter '{}' has the shape {} in the adapter, and {} in the base",
                                  core::shown(p.name), core::shape_text(p.value->shape), core::shape_text(t->shape)));
    const auto& file = folder_->file();
    put(*t, p.value->type, file.offset_bytes(*p.value), {.path = file.path(), .bytes = file.file_bytes()});
    return {};
  }
  /// Replaces the tensors of the parameter `old` by one whose elements of `type` begin at byte `offset` of `file`.
  void put(const tensor_entry& old, core::dtype type, uint64_t offset, source_file file) {
    tensor_entry entry{old.name, tensor_kind::weight, {}, type, old.shape, {}};
    entry.pieces.push_back({static_cast<uint32_t>(out_.files.size()), 0, core::numel_of(old.shape), offset, {}});
    std::erase_if(out_.tensors, [&](const tensor_entry& t) { return t.name == old.name; });
    out_.files.push_back(std::move(file));
    out_.tensors.push_back(std::move(entry));
  }

  std::shared_ptr<const tensor_source> base_;
  tensor_source out_;
  name_map names_;
  low_rank_adapter adapter_;
  std::shared_ptr<const peft_adapter> folder_;
  bool is_in_out_;
};

}  // namespace

core::result<low_rank_adapter> matrices_of(const peft_adapter& adapter) {
  const adapter_options& options = adapter.options();
  low_rank_adapter out{.place = adapter.folder(), .base = options.base, .layers = {}};
  for (const adapter_layer& from : adapter.layers()) {
    low_rank_layer& layer = out.layers.emplace_back();
    layer.name = from.name;
    layer.in = static_cast<uint64_t>(from.a->shape[1]);
    layer.out = static_cast<uint64_t>(from.b->shape[0]);
    layer.rank = options.rank;
    layer.scale = options.scale();
    layer.a.resize(layer.rank * layer.in);
    layer.b.resize(layer.out * layer.rank);
    TROUPE_TRY(adapter.read(*from.a, 0, layer.a));
    TROUPE_TRY(adapter.read(*from.b, 0, layer.b));
  }
  return out;
}

core::result<tensor_source> merged_with(tensor_source base, low_rank_adapter adapter, bool is_in_out) {
  return adapter_merge(std::move(base), std::move(adapter), nullptr, is_in_out).run();
}

core::result<tensor_source> merged_with(tensor_source base, std::shared_ptr<const peft_adapter> adapter,
                                        bool is_in_out) {
  TROUPE_ASSIGN(auto matrices, matrices_of(*adapter));
  return adapter_merge(std::move(base), std::move(matrices), std::move(adapter), is_in_out).run();
}

}  // namespace troupe::formats
