#include "formats/gguf/adapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/lfs_pointer.hpp"
#include "core/math.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "formats/gguf/decoded_file.hpp"
#include "formats/gguf/families.hpp"
#include "formats/gguf/header.hpp"
#include "formats/gguf/writer.hpp"
#include "formats/names/name_map.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/source/tensor_source.hpp"
#include "kernels/base/cast.hpp"

namespace troupe::formats {
namespace {

constexpr std::string_view end_of_a = ".lora_a", end_of_b = ".lora_b", end_of_weight = ".weight";
constexpr std::string_view alpha_key = "adapter.lora.alpha", adapter_type_key = "adapter.type";
constexpr uint64_t matrix_alignment_bytes = 8;

/// Returns the row of the model's matrix that row `row` of `rows` in a GGUF file is.
uint64_t row_in_model(gguf_order order, uint64_t row, uint64_t rows, uint64_t head_width) {
  if (order == gguf_order::query_rotary || order == gguf_order::key_rotary) {
    const uint64_t in_head = row % head_width;
    return row - in_head + rotary_row(in_head, head_width);
  }
  if (order != gguf_order::by_head) return row;
  const uint64_t heads = rows / (3 * head_width), part = row / (heads * head_width), head = row / head_width % heads;
  return (head * 3 + part) * head_width + row % head_width;
}

/// Refuses a number of rows of B that is not made of whole heads, if the order concerns heads.
core::result<void> check_rows(gguf_order order, uint64_t rows, uint64_t head_width) {
  const bool is_rotary = order == gguf_order::query_rotary || order == gguf_order::key_rotary;
  if (order == gguf_order::raised)
    return fail(error_kind::mismatch, "the elements of a norm, and adapters have no norms");
  if (!is_rotary && order != gguf_order::by_head) return {};
  const uint64_t step = is_rotary ? head_width : 3 * head_width;
  if (step > 0 && rows % step == 0 && (!is_rotary || head_width % 2 == 0)) return {};
  return fail(error_kind::mismatch, fmt::format("{} outputs, wanted whole heads of {} elements", rows, head_width));
}

/// Returns B with its rows in the model's order from the order of a GGUF file, or the reverse if `to_file`.
std::vector<float> reordered(const std::vector<float>& b, gguf_order order, uint64_t rank, uint64_t head_width,
                             bool to_file) {
  const uint64_t rows = b.size() / rank;
  std::vector<float> out(b.size());
  for (uint64_t r = 0; r < rows; ++r) {
    const uint64_t model = row_in_model(order, r, rows, head_width);
    const uint64_t from = to_file ? model : r, to = to_file ? r : model;
    std::copy_n(b.begin() + static_cast<std::ptrdiff_t>(from * rank), rank,
                out.begin() + static_cast<std::ptrdiff_t>(to * rank));
  }
  return out;
}

/// Reads the matrices of one file.
class adapter_file_reader {
 public:
  adapter_file_reader(std::filesystem::path path, const families::family& family, uint32_t head_width)
      : path_(std::move(path)), family_(family), head_width_(head_width) {}

  core::result<low_rank_adapter> run() {
    TROUPE_ASSIGN(const auto file, core::source_file::open(path_));
    TROUPE_TRY(core::refuse_lfs_pointer(file));
    TROUPE_ASSIGN(header_, read_gguf_header(file));
    TROUPE_TRY(keys());
    TROUPE_TRY(find_matrices());
    TROUPE_TRY(list(file.size()));
    low_rank_adapter out{.place = path_, .base = header_.metadata.text("general.base_model.0.name"), .layers = {}};
    for (const auto& [name, pair] : pairs_) {
      TROUPE_ASSIGN(auto layer, read(name, pair));
      out.layers.push_back(std::move(layer));
    }
    if (out.layers.empty()) return mismatch("it holds no adapter");
    return out;
  }

 private:
  struct matrices {
    const gguf_tensor *a = nullptr, *b = nullptr;
  };

  [[nodiscard]] tl::unexpected<core::error> refused(const std::string& text) const {
    return core::refused(fmt::format("'{}': {}", path_.string(), text));
  }
  [[nodiscard]] tl::unexpected<core::error> mismatch(const std::string& text) const {
    return core::fail(error_kind::mismatch, fmt::format("'{}': {}", path_.string(), text));
  }
  [[nodiscard]] tl::unexpected<core::error> wrong(const gguf_tensor& t, const std::string& text) const {
    return mismatch(fmt::format("tensor '{}' {}", core::shown(t.name), text));
  }

  [[nodiscard]] core::result<void> keys() const {
    const gguf_metadata& all = header_.metadata;
    if (all.text("general.type") != "adapter")
      return refused(
          fmt::format("key 'general.type': wanted \"adapter\", got \"{}\"", core::shown(all.text("general.type"))));
    if (all.text(adapter_type_key) != "lora")
      return refused(fmt::format("key '{}': wanted \"lora\", got \"{}\"", adapter_type_key,
                                 core::shown(all.text(adapter_type_key))));
    if (const auto* tokens = all.find("adapter.alora.invocation_tokens"); tokens != nullptr && tokens->count() > 0)
      return refused(
          "key 'adapter.alora.invocation_tokens': an adapter that acts only after these tokens cannot be "
          "added to weights");
    if (const auto alpha = all.number(alpha_key); alpha && !std::isfinite(*alpha))
      return refused(fmt::format("key '{}': wanted a finite number, got {}", alpha_key, *alpha));
    if (const auto of = all.text("general.architecture"); of != family_.gguf.architecture)
      return mismatch(fmt::format("it is an adapter of a base of architecture '{}', and this base's is '{}'",
                                  core::shown(of), family_.gguf.architecture));
    return {};
  }

  core::result<void> find_matrices() {
    for (const gguf_tensor& t : header_.tensors) {
      const bool is_a = t.name.ends_with(end_of_a), is_b = t.name.ends_with(end_of_b);
      if (!is_a && !is_b) return wrong(t, "is not one of the two matrices of a low-rank adapter");
      const std::string name = t.name.substr(0, t.name.size() - (is_a ? end_of_a : end_of_b).size());
      if (name == gguf_embedding_name)
        return wrong(t, "is of an adapter of the embedding, which Troupe does not compute");
      if (t.extents.size() != 2 || !is_floating(dtype_of(t.type)))
        return wrong(t, fmt::format("has {} extents of type {}: wanted a matrix of a floating type", t.extents.size(),
                                    name_of(t.type)));
      auto& pair = pairs_[name];
      (is_a ? pair.a : pair.b) = &t;
    }
    return {};
  }

  /// Makes the source that decodes the elements of all matrices.
  core::result<void> list(uint64_t file_bytes) {
    std::vector<decoded_tensor> decoded;
    uint64_t at = 0;
    for (const gguf_tensor& t : header_.tensors) {
      decoded.push_back({t, header_.data_begin + t.offset_bytes, at, gguf_order::same, 0});
      tensor_entry entry{t.name, tensor_kind::weight, {}, dtype_of(t.type), {}, {}};
      entry.shape.assign(t.extents.rbegin(), t.extents.rend());
      entry.pieces.push_back({0, 0, t.elements(), at, {}});
      source_.tensors.push_back(std::move(entry));
      at = core::round_up(at + decoded.back().bytes(), matrix_alignment_bytes);
    }
    auto view = std::make_shared<const decoded_view>(path_, file_bytes, std::move(decoded));
    const uint64_t bytes = view->bytes();
    source_.format = "GGUF";
    source_.folder = path_.parent_path();
    source_.files.push_back({.path = path_, .bytes = bytes, .view = std::move(view)});
    return complete(source_);
  }

  [[nodiscard]] core::result<std::vector<float>> values(const gguf_tensor& t) const {
    std::vector<float> out(t.elements());
    source_reader reader(source_);
    TROUPE_TRY(reader.read_as(core::dtype::f32, *find_tensor(source_, t.name, tensor_kind::weight), 0, out.size(),
                              std::as_writable_bytes(std::span(out))));
    return out;
  }

  [[nodiscard]] core::result<low_rank_layer> read(const std::string& weight, const matrices& pair) const {
    if (pair.a == nullptr || pair.b == nullptr)
      return mismatch(fmt::format("'{}' has only one of its two matrices", core::shown(weight)));
    const auto place = parameter_of(family_.gguf.architecture, weight);
    if (!place || !place->name.ends_with(end_of_weight))
      return wrong(*pair.a, fmt::format("belongs to no weight of architecture '{}'", family_.gguf.architecture));
    low_rank_layer out;
    out.in = pair.a->extents[0];
    out.rank = pair.a->extents[1];
    out.out = pair.b->extents[1];
    if (pair.b->extents[0] != out.rank)
      return wrong(*pair.b, fmt::format("has rows of {} elements, and the rank of '{}' is {}", pair.b->extents[0],
                                        core::shown(pair.a->name), out.rank));
    if (auto ok = check_rows(place->order, out.out, head_width_); !ok) return wrong(*pair.b, "has " + ok.error().text);
    out.name = hugging_face_name(family_.model_type, place->name);
    out.name.resize(out.name.size() - end_of_weight.size());
    const double alpha = header_.metadata.number(alpha_key).value_or(0);
    out.scale = alpha == 0 ? 1 : alpha / static_cast<double>(out.rank);
    TROUPE_ASSIGN(out.a, values(*pair.a));
    TROUPE_ASSIGN(const auto b, values(*pair.b));
    out.b = reordered(b, place->order, out.rank, head_width_, /*to_file=*/false);
    return out;
  }

  const std::filesystem::path path_;
  const families::family& family_;
  const uint32_t head_width_;
  gguf_header header_;
  tensor_source source_;
  std::map<std::string, matrices, std::less<>> pairs_;  // by the name of the weight in GGUF files
};

/// A matrix of a file that is written.
struct matrix_to_write {
  gguf_tensor tensor;
  std::vector<float> values;
};

core::result<std::vector<matrix_to_write>> matrices_to_write(const low_rank_adapter& adapter,
                                                             const families::family& family, uint32_t head_width,
                                                             gguf_type type) {
  std::vector<matrix_to_write> out;
  for (const low_rank_layer& layer : adapter.layers) {
    const auto in_layer = [&](const std::string& text) {
      return core::fail(error_kind::mismatch,
                        fmt::format("'{}': layer '{}': {}", adapter.place.string(), core::shown(layer.name), text));
    };
    const auto place = gguf_place_of(family.gguf.architecture, bare_name(layer.name + std::string(end_of_weight)));
    if (!place)
      return in_layer(fmt::format("it has no name in GGUF files of architecture '{}'", family.gguf.architecture));
    if (auto ok = check_rows(place->order, layer.out, head_width); !ok) return in_layer(ok.error().text);
    out.push_back({{place->name + std::string(end_of_a), type, {layer.in, layer.rank}, 0}, layer.a});
    out.push_back({{place->name + std::string(end_of_b), type, {layer.rank, layer.out}, 0},
                   reordered(layer.b, place->order, layer.rank, head_width, /*to_file=*/true)});
  }
  return out;
}

}  // namespace

core::result<low_rank_adapter> read_gguf_adapter(const std::filesystem::path& path, const families::family& family,
                                                 uint32_t head_width) {
  return adapter_file_reader(path, family, head_width).run();
}

core::result<uint64_t> write_gguf_adapter(const std::filesystem::path& out, const low_rank_adapter& adapter,
                                          const families::family& family, uint32_t head_width,
                                          const gguf_adapter_options& options) {
  TROUPE_ASSIGN(const auto matrices, matrices_to_write(adapter, family, head_width, options.type));
  gguf_metadata keys;
  keys.set("general.architecture", gguf_value::of(std::string(family.gguf.architecture)));
  keys.set("general.type", gguf_value::of(std::string("adapter")));
  keys.set(std::string(adapter_type_key), gguf_value::of(std::string("lora")));
  keys.set(std::string(alpha_key), gguf_value::of(static_cast<float>(options.alpha)));
  for (const auto& [key, value] : options.more.entries) keys.set(key, value);
  std::vector<gguf_tensor> tensors;
  for (const auto& m : matrices) tensors.push_back(m.tensor);
  TROUPE_ASSIGN(auto file, gguf_writer::create(out, keys, std::move(tensors)));
  const core::dtype type = dtype_of(options.type);
  std::vector<std::byte> stored;
  for (const auto& m : matrices) {
    stored.resize(m.values.size() * core::size_of(type));
    if (const auto lost = kernels::cast(reinterpret_cast<const std::byte*>(m.values.data()), core::dtype::f32,
                                        stored.data(), type, m.values.size()))
      return core::fail(error_kind::numeric,
                        fmt::format("'{}': '{}': element {} is {}, which {} cannot hold", adapter.place.string(),
                                    m.tensor.name, lost->element, lost->value, name_of(options.type)));
    TROUPE_TRY(file.write(stored));
  }
  TROUPE_TRY(file.commit());
  return file.bytes();
}

}  // namespace troupe::formats
