// Contains the tables of known names in torch.save files, and reads shapes and whole numbers that are written as calls.
#include "formats/torch/archive_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "formats/safetensors/header.hpp"
#include "formats/torch/archive.hpp"
#include "formats/torch/zip_layout.hpp"

namespace troupe::formats {

using core::dtype;

namespace torch_names {
namespace {

struct named_type {
  std::string_view name;
  dtype type;
};

constexpr named_type storages[] = {{"FloatStorage", dtype::f32},     {"HalfStorage", dtype::f16},
                                   {"BFloat16Storage", dtype::bf16}, {"DoubleStorage", dtype::f64},
                                   {"LongStorage", dtype::i64},      {"IntStorage", dtype::i32},
                                   {"ShortStorage", dtype::i16},     {"CharStorage", dtype::i8},
                                   {"ByteStorage", dtype::u8},       {"BoolStorage", dtype::boolean}};
constexpr named_type types[] = {{"float32", dtype::f32}, {"float16", dtype::f16}, {"bfloat16", dtype::bf16},
                                {"float64", dtype::f64}, {"int64", dtype::i64},   {"int32", dtype::i32},
                                {"int16", dtype::i16},   {"int8", dtype::i8},     {"uint8", dtype::u8},
                                {"bool", dtype::boolean}};

/// A typed storage of torch whose elements Troupe does not read.
struct unread_storage_type {
  std::string_view name, dtype;
  uint64_t element_bytes;
};
constexpr unread_storage_type unread_storages[] = {{"ComplexFloatStorage", "complex64", 8},
                                                   {"ComplexDoubleStorage", "complex128", 16},
                                                   {"QInt8Storage", "qint8", 1},
                                                   {"QUInt8Storage", "quint8", 1},
                                                   {"QInt32Storage", "qint32", 4},
                                                   {"QUInt4x2Storage", "quint4x2", 1},
                                                   {"QUInt2x4Storage", "quint2x4", 1}};
constexpr std::string_view unread_dtypes[] = {"uint16",
                                              "uint32",
                                              "uint64",
                                              "complex32",
                                              "complex64",
                                              "complex128",
                                              "chalf",
                                              "cfloat",
                                              "cdouble",
                                              "float8_e4m3fn",
                                              "float8_e5m2",
                                              "float8_e4m3fnuz",
                                              "float8_e5m2fnuz",
                                              "float8_e8m0fnu",
                                              "float4_e2m1fn_x2",
                                              "qint8",
                                              "quint8",
                                              "qint32",
                                              "quint4x2",
                                              "quint2x4",
                                              "bits1x8",
                                              "bits2x4",
                                              "bits4x2",
                                              "bits8",
                                              "bits16",
                                              "int1",
                                              "int2",
                                              "int3",
                                              "int4",
                                              "int5",
                                              "int6",
                                              "int7",
                                              "uint1",
                                              "uint2",
                                              "uint3",
                                              "uint4",
                                              "uint5",
                                              "uint6",
                                              "uint7"};

std::optional<dtype> looked_up(std::span<const named_type> table, std::string_view name) {
  const auto at = std::ranges::find(table, name, &named_type::name);
  return at == table.end() ? std::nullopt : std::optional(at->type);
}

struct full_name {
  std::string_view module, name;
};

constexpr full_name rebuilds[] = {{"torch._utils", "_rebuild_tensor_v2"},
                                  {"torch._utils", "_rebuild_tensor_v3"},
                                  {"torch._utils", "_rebuild_parameter"},
                                  {"torch._utils", "_rebuild_parameter_with_state"},
                                  {"torch._tensor", "_rebuild_from_type_v2"}};
constexpr full_name others[] = {{"collections", "OrderedDict"},
                                {"builtins", "set"},
                                {"builtins", "frozenset"},
                                {"builtins", "getattr"},
                                {"_codecs", "encode"},
                                {"torch", "Size"},
                                {"torch", "device"},
                                {"torch", "Tensor"},
                                {"torch.nn.parameter", "Parameter"},
                                {"torch.storage", "UntypedStorage"},
                                {"numpy", "dtype"},
                                {"numpy.core.multiarray", "scalar"},
                                {"numpy._core.multiarray", "scalar"},
                                {"deepspeed.runtime.zero.config", "ZeroStageEnum"},
                                {"deepspeed.runtime.fp16.loss_scaler", "LossScaler"},
                                {"deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler"},
                                {"deepspeed.utils.tensor_fragment", "fragment_address"},
                                {"deepspeed.runtime.bf16_optimizer", "fragment_address"},
                                {"deepspeed.runtime.zero.stage_1_and_2", "fragment_address"}};

bool is_one_of(const pickle_tree& tree, pickle_ref v, std::span<const full_name> names) {
  return std::ranges::any_of(names, [&](const full_name& n) { return tree.is_global(v, n.module, n.name); });
}

}  // namespace

std::optional<storage> storage_id(const pickle_tree& tree, pickle_ref v) {
  if (tree.kind(v) != pickle_kind::persistent) return std::nullopt;
  const pickle_ref id = tree.items(v)[0];
  const auto parts = tree.items(id);
  if (tree.kind(id) != pickle_kind::tuple || parts.size() < 5 || tree.kind(parts[0]) != pickle_kind::text ||
      tree.text(parts[0]) != "storage" || tree.kind(parts[1]) != pickle_kind::global ||
      tree.kind(parts[2]) != pickle_kind::text)
    return std::nullopt;
  storage out;
  out.key = tree.text(parts[2]);
  if (out.key.size() > max_storage_key_bytes) return std::nullopt;
  out.type_name = tree.text(tree.items(parts[1])[1]);
  if (tree.text(tree.items(parts[1])[0]) == "torch") out.type = looked_up(storages, out.type_name);
  if (tree.is_global(parts[1], "torch.storage", "UntypedStorage")) out.element_bytes = 1;
  if (const auto* at = std::ranges::find(unread_storages, out.type_name, &unread_storage_type::name);
      at != std::end(unread_storages) && tree.text(tree.items(parts[1])[0]) == "torch")
    out.element_bytes = at->element_bytes;
  return out;
}

std::string_view storage_name(dtype type) { return std::ranges::find(storages, type, &named_type::type)->name; }

std::optional<dtype> dtype_of(const pickle_tree& tree, pickle_ref v) {
  if (tree.kind(v) != pickle_kind::global || tree.text(tree.items(v)[0]) != "torch") return std::nullopt;
  return looked_up(types, tree.text(tree.items(v)[1]));
}

std::string unread_dtype(const pickle_tree& tree, pickle_ref v) {
  if (tree.kind(v) != pickle_kind::global || tree.text(tree.items(v)[0]) != "torch") return "";
  const auto name = tree.text(tree.items(v)[1]);
  return std::ranges::find(unread_dtypes, name) == std::end(unread_dtypes) ? "" : std::string(name);
}

std::string unread_storage(std::string_view type_name) {
  const auto* at = std::ranges::find(unread_storages, type_name, &unread_storage_type::name);
  return at == std::end(unread_storages) ? "" : std::string(at->dtype);
}

bool rebuilds_tensor(const pickle_tree& tree, pickle_ref global) { return is_one_of(tree, global, rebuilds); }

bool is_known(const pickle_tree& tree, pickle_ref global) {
  if (rebuilds_tensor(tree, global) || is_one_of(tree, global, others) || dtype_of(tree, global)) return true;
  if (!unread_dtype(tree, global).empty()) return true;
  const auto name = tree.text(tree.items(global)[1]);
  return tree.text(tree.items(global)[0]) == "torch" && (looked_up(storages, name) || !unread_storage(name).empty());
}

std::optional<int64_t> zero_stage(std::string_view member) {
  constexpr std::string_view members[] = {"disabled", "optimizer_states", "gradients", "weights"};
  if (member == "max_stage") return 3;
  const auto at = std::ranges::find(members, member);
  return at == std::end(members) ? std::nullopt : std::optional<int64_t>(at - std::begin(members));
}

}  // namespace torch_names

core::result<std::vector<int64_t>> torch_archive::shape(pickle_ref v) const {
  const auto wanted = [] { return fail(error_kind::bad_input, "a shape of whole numbers was wanted"); };
  if (tree_.is_call(v, "torch", "Size")) {
    const auto args = tree_.items(tree_.args(v));
    if (args.size() != 1) return wanted();
    v = args[0];
  }
  if (tree_.kind(v) != pickle_kind::tuple && tree_.kind(v) != pickle_kind::list) return wanted();
  const auto items = tree_.items(v);
  if (items.size() > max_rank) return fail(error_kind::limit, fmt::format("more than {} dimensions", max_rank));
  std::vector<int64_t> out;
  for (const pickle_ref item : items) {
    const auto n = integer(item);
    if (!n || *n < 0) return wanted();
    out.push_back(*n);
  }
  return out;
}

core::result<int64_t> torch_archive::integer(pickle_ref v) const {
  const auto wanted = [&](const std::string& got) {
    return fail(error_kind::bad_input, fmt::format("a whole number was wanted, got {}", got));
  };
  if (tree_.kind(v) == pickle_kind::integer) return tree_.integer(v);
  if (tree_.kind(v) != pickle_kind::object) return wanted("another value");
  const auto args = tree_.items(tree_.args(v));
  const auto is_stage = [&](pickle_ref g) {
    return tree_.is_global(g, "deepspeed.runtime.zero.config", "ZeroStageEnum");
  };
  if (is_stage(tree_.target(v)) && args.size() == 1 && tree_.kind(args[0]) == pickle_kind::integer)
    return tree_.integer(args[0]);
  if (tree_.is_call(v, "builtins", "getattr") && args.size() == 2 && is_stage(args[0]) &&
      tree_.kind(args[1]) == pickle_kind::text)
    if (const auto stage = torch_names::zero_stage(tree_.text(args[1]))) return *stage;
  const bool scalar =
      tree_.is_call(v, "numpy.core.multiarray", "scalar") || tree_.is_call(v, "numpy._core.multiarray", "scalar");
  if (scalar && args.size() == 2 && tree_.is_call(args[0], "numpy", "dtype") &&
      tree_.kind(args[1]) == pickle_kind::bytes) {
    const auto names = tree_.items(tree_.args(args[0]));
    const std::string_view type =
        !names.empty() && tree_.kind(names[0]) == pickle_kind::text ? tree_.text(names[0]) : "";
    const std::string_view bytes = tree_.text(args[1]);
    if (type.size() == 2 && (type[0] == 'i' || type[0] == 'u') && bytes.size() <= 8 &&
        bytes.size() == static_cast<size_t>(type[1] - '0') && !bytes.empty()) {
      const uint64_t raw = zip::number(std::as_bytes(std::span(bytes)), 0, bytes.size());
      const auto unused = static_cast<int>(64 - 8 * bytes.size());
      if (type[0] == 'i') return static_cast<int64_t>(raw << unused) >> unused;
      if (raw >> 63 == 0) return static_cast<int64_t>(raw);
    }
  }
  return wanted(tree_.global_name(tree_.target(v)));
}

std::vector<std::string> torch_archive::unknown_globals() const {
  std::set<std::string> out;
  for (pickle_ref v = 0; v < tree_.size(); ++v)
    if (tree_.kind(v) == pickle_kind::global && !torch_names::is_known(tree_, v)) out.insert(tree_.global_name(v));
  return {out.begin(), out.end()};
}

}  // namespace troupe::formats
