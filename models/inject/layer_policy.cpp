#include "models/inject/layer_policy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "core/text.hpp"
#include "families/all_families.hpp"

namespace troupe::models {
namespace {

const char* const has_experts = "its MLP is divided into experts, which Troupe has no layers for";
const char* const is_diffusion = "diffusion models are made of convolutions, which Troupe has no layers for";
const char* const turns_neighbours = "it rotates neighbouring elements of a head, or a part of each head only";

/// Returns the roles of the modules in a block of a family that Troupe trains.
std::vector<role_path> paths_in(const families::family& f) {
  using enum layer_role;
  const auto& n = f.names;
  std::vector<role_path> out;
  for (const auto& [role, path] :
       std::initializer_list<std::pair<layer_role, std::string_view>>{{attention_norm, n.attention_norm},
                                                                      {packed_qkv, n.packed},
                                                                      {query, n.query},
                                                                      {key, n.key},
                                                                      {value, n.value},
                                                                      {output, n.attention_output},
                                                                      {attention_norm, n.attention_sum_norm},
                                                                      {mlp_norm, n.mlp_norm},
                                                                      {packed_gate_up, n.gate_and_up},
                                                                      {gate, n.gate},
                                                                      {up, n.up},
                                                                      {down, n.down},
                                                                      {mlp_norm, n.mlp_sum_norm}})
    if (!path.empty()) out.push_back({role, std::string(path)});
  return out;
}

std::vector<layer_policy> rows_of_encoders() {
  using enum layer_role;
  layer_policy bert{
      .name = "HFBertLayerPolicy",
      .families = {"bert", "roberta", "xlm_roberta", "camembert", "electra", "ernie", "nezha", "splinter"},
      .paths = paths_in(families::bert),
      .order = norm_order::after,
      .act = mlp_activation::gelu_exact,
      .causal = false};
  layer_policy distil{.name = "HFDistilBertLayerPolicy",
                      .families = {"distilbert"},
                      .paths = {{query, "attention.q_lin"},
                                {key, "attention.k_lin"},
                                {value, "attention.v_lin"},
                                {output, "attention.out_lin"},
                                {attention_norm, "sa_layer_norm"},
                                {up, "ffn.lin1"},
                                {down, "ffn.lin2"},
                                {mlp_norm, "output_layer_norm"}},
                      .order = norm_order::after,
                      .act = mlp_activation::gelu_exact,
                      .causal = false};
  layer_policy clip{.name = "HFCLIPLayerPolicy",
                    .families = {"clip"},
                    .paths = {{attention_norm, "layer_norm1"},
                              {query, "self_attn.q_proj"},
                              {key, "self_attn.k_proj"},
                              {value, "self_attn.v_proj"},
                              {output, "self_attn.out_proj"},
                              {mlp_norm, "layer_norm2"},
                              {up, "mlp.fc1"},
                              {down, "mlp.fc2"}},
                    .causal = false,
                    .stays = "its activation x * sigmoid(1.702 x) is none of Troupe's"};
  return {std::move(bert), std::move(distil), std::move(clip)};
}

std::vector<layer_policy> rows_of_gpts() {
  using enum layer_role;
  layer_policy gpt2{.name = "HFGPT2LayerPolicy", .families = {"gpt2"}, .paths = paths_in(families::gpt2)};
  layer_policy neo{.name = "HFGPTNEOLayerPolicy",
                   .families = {"gpt_neo", "gpt-neo"},
                   .paths = {{attention_norm, "ln_1"},
                             {query, "attn.attention.q_proj"},
                             {key, "attn.attention.k_proj"},
                             {value, "attn.attention.v_proj"},
                             {output, "attn.attention.out_proj"},
                             {mlp_norm, "ln_2"},
                             {up, "mlp.c_fc"},
                             {down, "mlp.c_proj"}},
                   .stays = "it does not scale its scores, and every second layer sees 256 tokens"};
  layer_policy gptj{.name = "HFGPTJLayerPolicy",
                    .families = {"gptj", "gpt-j"},
                    .paths = {{attention_norm, "ln_1"},
                              {query, "attn.q_proj"},
                              {key, "attn.k_proj"},
                              {value, "attn.v_proj"},
                              {output, "attn.out_proj"},
                              {up, "mlp.fc_in"},
                              {down, "mlp.fc_out"}},
                    .order = norm_order::parallel,
                    .stays = turns_neighbours};
  layer_policy neox{.name = "GPTNEOXLayerPolicy",
                    .families = {"gpt_neox", "gpt-neox"},
                    .paths = paths_in(families::gpt_neox),
                    .order = norm_order::parallel,
                    .packing = qkv_packing::by_head,
                    .act = mlp_activation::gelu_exact,
                    .stays = turns_neighbours};
  layer_policy megatron{.name = "MegatronLayerPolicy",
                        .families = {"megatron"},
                        .paths = {{attention_norm, "input_layernorm"},
                                  {packed_qkv, "self_attention.query_key_value"},
                                  {packed_qkv, "attention.query_key_value"},
                                  {output, "self_attention.dense"},
                                  {output, "attention.dense"},
                                  {mlp_norm, "post_attention_layernorm"},
                                  {up, "mlp.dense_h_to_4h"},
                                  {down, "mlp.dense_4h_to_h"}},
                        .packing = qkv_packing::by_head};
  layer_policy megatron_moe{.name = "MegatronMoELayerPolicy", .refused = has_experts};
  layer_policy opt{.name = "HFOPTLayerPolicy",
                   .families = {"opt", "xglm", "bigbird_pegasus", "m2m_100", "marian", "mvp", "pegasus", "plbart"},
                   .paths = {{attention_norm, "self_attn_layer_norm"},
                             {query, "self_attn.q_proj"},
                             {key, "self_attn.k_proj"},
                             {value, "self_attn.v_proj"},
                             {output, "self_attn.out_proj"},
                             {mlp_norm, "final_layer_norm"},
                             {up, "fc1"},
                             {down, "fc2"}},
                   .act = mlp_activation::relu};
  layer_policy bloom{.name = "BLOOMLayerPolicy",
                     .families = {"bloom"},
                     .paths = {{attention_norm, "input_layernorm"},
                               {packed_qkv, "self_attention.query_key_value"},
                               {output, "self_attention.dense"},
                               {mlp_norm, "post_attention_layernorm"},
                               {up, "mlp.dense_h_to_4h"},
                               {down, "mlp.dense_4h_to_h"}},
                     .packing = qkv_packing::by_head,
                     .stays = "it adds a slope per head to its scores (ALiBi)"};
  return {std::move(gpt2),     std::move(neo),          std::move(gptj), std::move(neox),
          std::move(megatron), std::move(megatron_moe), std::move(opt),  std::move(bloom)};
}

/// Returns a row with the modules of Llama's blocks, as Hugging Face names them.
layer_policy like_llama(std::string name, std::vector<std::string> autotp_names) {
  return {.name = std::move(name),
          .families = std::move(autotp_names),
          .paths = paths_in(families::llama),
          .norm = norm_kind::rms,
          .act = mlp_activation::silu,
          .rotates = true};
}

std::vector<layer_policy> rows_of_llamas() {
  using enum layer_role;
  layer_policy meta{.name = "LLAMA2LayerPolicy",
                    .paths = {{attention_norm, "attention_norm"},
                              {query, "attention.wq"},
                              {key, "attention.wk"},
                              {value, "attention.wv"},
                              {output, "attention.wo"},
                              {mlp_norm, "ffn_norm"},
                              {gate, "feed_forward.w1"},
                              {up, "feed_forward.w3"},
                              {down, "feed_forward.w2"}},
                    .norm = norm_kind::rms,
                    .act = mlp_activation::silu,
                    .stays = turns_neighbours};
  layer_policy mixtral{
      .name = "MixtralPolicy", .families = {"mixtral", "arctic", "deepseek_v2", "deepseek_v3"}, .refused = has_experts};
  layer_policy moe{
      .name = "Qwen2MoePolicy", .families = {"qwen2-moe", "qwen2_moe", "qwen3_moe"}, .refused = has_experts};
  layer_policy qwen{.name = "QwenPolicy",
                    .families = {"qwen"},
                    .paths = {{attention_norm, "ln_1"},
                              {packed_qkv, "attn.c_attn"},
                              {output, "attn.c_proj"},
                              {mlp_norm, "ln_2"},
                              {gate, "mlp.w2"},
                              {up, "mlp.w1"},
                              {down, "mlp.c_proj"}},
                    .norm = norm_kind::rms,
                    .act = mlp_activation::silu,
                    .rotates = true,
                    .epsilon = 1e-6};
  layer_policy qwen2 = like_llama("Qwen2Policy", {"qwen2", "qwen2.5"});
  qwen2.epsilon = 1e-6;
  layer_policy qwen3 = like_llama("Qwen3Policy", {"qwen3"});
  qwen3.stays = "it has a norm for each head of queries and keys";
  layer_policy gemma = like_llama("GemmaPolicy", {"gemma"});
  gemma.norm = norm_kind::rms_plus_one;
  gemma.act = mlp_activation::gelu_tanh;
  gemma.stays = "its norms multiply by 1 + w";
  return {like_llama("LLAMALayerPolicy", {"llama", "llama2", "codellama", "yi"}),
          std::move(meta),
          like_llama("InternLMLayerPolicy", {"internlm"}),
          like_llama("MistralPolicy", {"mistral"}),
          std::move(mixtral),
          std::move(qwen),
          std::move(qwen2),
          std::move(moe),
          std::move(qwen3),
          std::move(gemma)};
}

std::vector<layer_policy> rows_of_others() {
  using enum layer_role;
  layer_policy phi{.name = "PhiPolicy",
                   .families = {"phi"},
                   .paths = {{attention_norm, "input_layernorm"},
                             {query, "self_attn.q_proj"},
                             {key, "self_attn.k_proj"},
                             {value, "self_attn.v_proj"},
                             {output, "self_attn.dense"},
                             {up, "mlp.fc1"},
                             {down, "mlp.fc2"}},
                   .order = norm_order::parallel,
                   .stays = turns_neighbours};
  layer_policy phi3 = like_llama("Phi3Policy", {"phi3", "phi4"});
  phi3.paths = paths_in(families::phi3);
  layer_policy falcon{.name = "FalconPolicy",
                      .families = {"falcon"},
                      .paths = {{attention_norm, "input_layernorm"},
                                {attention_norm, "ln_attn"},
                                {packed_qkv, "self_attention.query_key_value"},
                                {output, "self_attention.dense"},
                                {mlp_norm, "ln_mlp"},
                                {up, "mlp.dense_h_to_4h"},
                                {down, "mlp.dense_4h_to_h"}},
                      .order = norm_order::parallel,
                      .packing = qkv_packing::other,
                      .act = mlp_activation::gelu_exact,
                      .stays = "it packs queries, keys and values by groups of heads"};
  layer_policy chatglm{.name = "ChatGLM2",
                       .families = {"chatglm", "chatglm2", "chatglm3"},
                       .paths = {{attention_norm, "input_layernorm"},
                                 {packed_qkv, "self_attention.query_key_value"},
                                 {output, "self_attention.dense"},
                                 {mlp_norm, "post_attention_layernorm"},
                                 {packed_gate_up, "mlp.dense_h_to_4h"},
                                 {down, "mlp.dense_4h_to_h"}},
                       .norm = norm_kind::rms,
                       .act = mlp_activation::silu,
                       .stays = turns_neighbours};
  layer_policy baichuan = like_llama("Baichuan", {"baichuan"});
  baichuan.paths = {{attention_norm, "input_layernorm"},
                    {packed_qkv, "self_attn.W_pack"},
                    {output, "self_attn.o_proj"},
                    {mlp_norm, "post_attention_layernorm"},
                    {gate, "mlp.gate_proj"},
                    {up, "mlp.up_proj"},
                    {down, "mlp.down_proj"}};
  layer_policy codegen{.name = "CodeGen",
                       .families = {"codegen"},
                       .paths = {{attention_norm, "ln_1"},
                                 {packed_qkv, "attn.qkv_proj"},
                                 {output, "attn.out_proj"},
                                 {up, "mlp.fc_in"},
                                 {down, "mlp.fc_out"}},
                       .order = norm_order::parallel,
                       .packing = qkv_packing::other,
                       .stays = "it packs queries, values and keys in four groups"};
  layer_policy mpt{.name = "MPT",
                   .families = {"mpt"},
                   .paths = {{attention_norm, "norm_1"},
                             {packed_qkv, "attn.Wqkv"},
                             {output, "attn.out_proj"},
                             {mlp_norm, "norm_2"},
                             {up, "ffn.up_proj"},
                             {down, "ffn.down_proj"}},
                   .act = mlp_activation::gelu_exact,
                   .stays = "it adds a slope per head to its scores (ALiBi)"};
  layer_policy bigcode{.name = "GPTBigCode",
                       .families = {"starcode", "gpt_bigcode"},
                       .paths = {{attention_norm, "ln_1"},
                                 {packed_qkv, "attn.c_attn"},
                                 {output, "attn.c_proj"},
                                 {mlp_norm, "ln_2"},
                                 {up, "mlp.c_fc"},
                                 {down, "mlp.c_proj"}}};
  return {std::move(phi),      std::move(phi3),    std::move(falcon), std::move(chatglm),
          std::move(baichuan), std::move(codegen), std::move(mpt),    std::move(bigcode)};
}

std::vector<layer_policy> all_rows() {
  std::vector<layer_policy> out;
  for (auto* of : {&rows_of_encoders, &rows_of_gpts, &rows_of_llamas, &rows_of_others})
    for (layer_policy& row : (*of)()) out.push_back(std::move(row));
  out.push_back({.name = "UNetPolicy", .refused = is_diffusion});
  out.push_back({.name = "VAEPolicy", .refused = is_diffusion});
  return out;
}

/// Returns how many characters must be inserted, removed or exchanged to turn `a` into `b`, ignoring case.
size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t before = std::exchange(row[0], i + 1);
    for (size_t k = 0; k < b.size(); ++k) {
      const size_t other = before + (core::ascii_lower(a[i]) == core::ascii_lower(b[k]) ? 0 : 1);
      before = row[k + 1];
      row[k + 1] = std::min({other, row[k] + 1, before + 1});
    }
  }
  return row.back();
}

/// Returns a regular expression for weights whose module's path ends, in whole words, in one of `paths`.
std::string pattern_of(const std::vector<std::string>& paths) {
  std::vector<std::string> exact;
  for (const std::string& path : paths) exact.push_back(exactly(path));
  return fmt::format(R"((?:.*[. ])?(?:{})\.weight$)", fmt::join(exact, "|"));
}

std::vector<std::string> paths_with(const layer_policy& policy, const std::vector<layer_role>& roles) {
  std::vector<std::string> out;
  for (const role_path& p : policy.paths)
    if (std::ranges::find(roles, p.role) != roles.end()) out.push_back(p.path);
  return out;
}

}  // namespace

std::string_view name_of(layer_role role) {
  constexpr std::array<std::string_view, 11> names = {
      "attention_norm", "query", "key", "value",          "packed_qkv", "output",
      "mlp_norm",       "gate",  "up",  "packed_gate_up", "down"};
  return names.at(static_cast<size_t>(role));
}

bool layer_policy::has(layer_role role) const {
  return std::ranges::any_of(paths, [&](const role_path& p) { return p.role == role; });
}

const std::vector<layer_policy>& layer_policies() {
  static const std::vector<layer_policy> rows = all_rows();
  return rows;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& names) {
  const auto found =
      std::ranges::min_element(names, {}, [&](const std::string& other) { return edits_between(name, other); });
  return found == names.end() ? std::string() : *found;
}

core::result<layer_policy> layer_policy_named(std::string_view name) {
  std::vector<std::string> names;
  for (const layer_policy& row : layer_policies()) {
    names.push_back(row.name);
    names.insert(names.end(), row.families.begin(), row.families.end());
    const bool is_it = row.name == name || std::ranges::find(row.families, name) != row.families.end();
    if (!is_it) continue;
    if (!row.refused.empty()) return core::refused(fmt::format("injection: policy '{}': {}", name, row.refused));
    return row;
  }
  return core::refused(fmt::format("injection: wanted the name of a policy, got '{}'; the nearest one is '{}'", name,
                                   nearest_name(name, names)));
}

core::result<std::vector<injection_rule>> tensor_rules(const layer_policy& policy) {
  using enum layer_role;
  if (!policy.refused.empty())
    return core::refused(fmt::format("injection: policy '{}': {}", policy.name, policy.refused));
  if (policy.has(packed_qkv) && policy.packing == qkv_packing::other)
    return core::refused(fmt::format(
        "injection: policy '{}': queries, keys and values are packed in an order that no rule describes; give rules "
        "with parts of your own",
        policy.name));
  std::vector<injection_rule> out;
  const uint32_t kv_heads = policy.kv_heads > 0 ? policy.kv_heads : policy.heads;
  const auto add = [&](const std::vector<layer_role>& roles, core::tp_style style, std::vector<uint64_t> ratio,
                       uint32_t heads) {
    if (const auto paths = paths_with(policy, roles); !paths.empty())
      out.push_back({pattern_of(paths), style, {}, heads, std::move(ratio)});
  };
  const bool by_head = policy.packing == qkv_packing::by_head;
  const std::vector<uint64_t> thirds =
      policy.heads > 0 ? std::vector<uint64_t>{policy.heads, kv_heads, kv_heads} : std::vector<uint64_t>{1, 1, 1};
  add({packed_qkv}, core::tp_style::column, by_head ? std::vector<uint64_t>() : thirds, kv_heads);
  add({query, key, value}, core::tp_style::column, {}, kv_heads);
  add({output}, core::tp_style::row, {}, kv_heads);
  add({packed_gate_up}, core::tp_style::column, {1, 1}, 0);
  add({gate, up}, core::tp_style::column, {}, 0);
  add({down}, core::tp_style::row, {}, 0);
  return out;
}

core::result<layer_policy> layer_policy_of_preset(std::string_view preset) {
  if (preset == "mixtral" || preset == "deepseek_v2")
    return core::refused(fmt::format("wanted a preset of a model without experts, got {}: {}", preset, has_experts));
  return layer_policy_named(preset);
}

}  // namespace troupe::models
