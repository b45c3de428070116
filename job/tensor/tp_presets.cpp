#include "job/tensor/tp_presets.hpp"

#include <span>
#include <string>

namespace troupe::job {
namespace {

using config::partition_type;

struct preset_layer {
  const char* pattern;  ///< regular expression for the end of a module's name
  partition_type type;
  /// Number of blocks of equal size, such as queries, keys and values, that are packed in the layer's weight.
  int64_t blocks = 1;
};

constexpr auto column = partition_type::column, row = partition_type::row, skip = partition_type::skip;

constexpr preset_layer separate[] = {{R"(self_attn\.o_proj)", row},
                                     {R"(self_attn\.[qkv]_proj)", column},
                                     {R"(mlp\.down_proj)", row},
                                     {R"(mlp\.(up|gate)_proj)", column}};
constexpr preset_layer bloom[] = {{R"(self_attention\.dense)", row},
                                  {R"(self_attention\.query_key_value)", column},
                                  {R"(mlp\.dense_4h_to_h)", row},
                                  {R"(mlp\.dense_h_to_4h)", column}};
constexpr preset_layer chatglm[] = {{R"(self_attention\.dense)", row},
                                    {R"(self_attention\.query_key_value)", column, 3},
                                    {R"(mlp\.dense_4h_to_h)", row},
                                    {R"(mlp\.dense_h_to_4h)", column, 2}};
constexpr preset_layer mixtral[] = {{R"(self_attn\.o_proj)", row},
                                    {R"(self_attn\.[qkv]_proj)", column},
                                    {R"(block_sparse_moe\.experts\.\d+\.w2)", row},
                                    {R"(block_sparse_moe\.experts\.\d+\.w[13])", column},
                                    {R"(block_sparse_moe\.gate)", skip}};
constexpr preset_layer deepseek_v2[] = {{R"(self_attn\.o_proj)", row},
                                        {R"(self_attn\.(q_a_proj|kv_a_proj_with_mqa))", skip},
                                        {R"(self_attn\.(q_b_proj|kv_b_proj))", column},
                                        {R"(mlp\.experts\.\d+\.down_proj)", row},
                                        {R"(mlp\.experts\.\d+\.(up|gate)_proj)", column},
                                        {R"(mlp\.gate)", skip},
                                        {R"(mlp\.shared_experts\.down_proj)", row},
                                        {R"(mlp\.shared_experts\.(up|gate)_proj)", column}};
constexpr preset_layer phi3[] = {{R"(self_attn\.o_proj)", row},
                                 {R"(self_attn\.qkv_proj)", column, 3},
                                 {R"(mlp\.down_proj)", row},
                                 {R"(mlp\.gate_up_proj)", column, 2}};

struct named_preset {
  std::string_view name;
  std::span<const preset_layer> layers;
};
constexpr named_preset presets[] = {{"llama", separate},  {"qwen2", separate},  {"bloom", bloom},
                                    {"chatglm", chatglm}, {"mixtral", mixtral}, {"deepseek_v2", deepseek_v2},
                                    {"phi3", phi3}};

}  // namespace

std::vector<config::layer_spec> preset_specs(std::string_view name) {
  std::vector<config::layer_spec> out;
  for (const named_preset& preset : presets)
    for (const preset_layer& l : preset.name == name ? preset.layers : std::span<const preset_layer>()) {
      config::layer_spec spec;
      spec.patterns = {R"(.*\.)" + std::string(l.pattern) + R"(\.weight$)"};
      spec.type = l.type;
      if (l.blocks > 1) spec.shape = {{false, {l.blocks}}, {false, {-1}}};
      spec.where = "preset_model " + std::string(name);
      out.push_back(std::move(spec));
    }
  return out;
}

}  // namespace troupe::job
