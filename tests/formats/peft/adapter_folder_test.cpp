// Tests folders of PEFT with LoRA adapters: what peft itself wrote, what Troupe writes, and refusals by key or tensor.
#include "formats/peft/adapter_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/check_ok.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(adapter_folder)

using namespace troupe;
using namespace troupe::formats;
using tests::check_error;
using tests::check_failed;
using tests::check_ok;

namespace {

const std::filesystem::path fixtures =
    std::filesystem::path(troupe::places::source_dir) / "tests" / "models" / "fixtures";

core::result<adapter_options> parsed(const std::string& more) {
  return parse_adapter_options(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8)" + more + "}", "c.json");
}

/// Writes an adapter of one layer with `rank` x 3 and 2 x 4 matrices and the options `keys`, and opens it.
core::result<std::unique_ptr<peft_adapter>> opened(const tests::scratch_folder& at, const std::string& keys,
                                                   const std::string& layer = "base_model.model.a",
                                                   int64_t rank = 4) {
  at.write("adapter_config.json", R"({"peft_type": "LORA", "r": 4)" + keys + "}");
  const std::vector<float> zeros(64);
  const auto bytes = [&](size_t n) { return std::as_bytes(std::span(zeros).first(n)); };
  const std::vector<tensor_to_write> tensors{
      {.name = layer + ".lora_A.weight", .shape = {rank, 3}, .bytes = bytes(static_cast<size_t>(rank) * 3)},
      {.name = layer + ".lora_B.weight", .shape = {2, 4}, .bytes = bytes(8)}};
  check_ok(write_safetensors(at.path() / "adapter_model.safetensors", tensors));
  return peft_adapter::open(at.path());
}

}  // namespace

BOOST_AUTO_TEST_CASE(folders_that_peft_wrote_are_read) {
  const auto llama = *check_ok(peft_adapter::open(fixtures / "lora_llama"));
  BOOST_TEST(llama->options().rank == 3U);
  BOOST_TEST(llama->options().scale() == 7.0 / 3.0);
  BOOST_TEST(llama->options().base == "somebody/tiny-llama");
  BOOST_TEST(llama->layers().size() == 14U);
  BOOST_TEST_REQUIRE(llama->parameters().size() == 1U);
  BOOST_TEST(llama->parameters().front().name == "lm_head.weight");
  const auto gpt2 = *check_ok(peft_adapter::open(fixtures / "lora_gpt2"));
  BOOST_TEST(gpt2->options().by_root);
  BOOST_TEST(gpt2->options().is_in_out);
  BOOST_TEST(gpt2->layers().front().name == "transformer.h.0.attn.c_attn");
  BOOST_TEST((*check_ok(peft_adapter::open(fixtures / "lora_phi3")))->options().is_normal);
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_written_reads_back_the_same) {
  const tests::scratch_folder at;
  const auto peers = *check_ok(peft_adapter::open(fixtures / "lora_llama"));
  std::vector<tensor_to_write> tensors;
  for (const auto& e : peers->file().entries()) {
    tensors.push_back({.name = e.name.substr(adapter_name_begin.size()), .type = e.type, .shape = e.shape});
    tensors.back().source = [&peers, &e](uint64_t offset, std::span<std::byte> out) {
      return peers->file().read(e, offset, out);
    };
  }
  check_ok(write_adapter(at.path() / "new", peers->options(), std::move(tensors)));
  const auto ours = *check_ok(peft_adapter::open(at.path() / "new"));
  const auto &a = ours->options(), &b = peers->options();
  BOOST_TEST(a.rank == b.rank);
  BOOST_TEST(a.alpha == b.alpha);
  BOOST_TEST(a.by_root == b.by_root);
  BOOST_TEST(a.base == b.base);
  BOOST_TEST(a.task == b.task);
  BOOST_TEST(a.targets == b.targets, boost::test_tools::per_element());
  BOOST_TEST(a.modules_to_save == b.modules_to_save, boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(ours->file().entries().size() == peers->file().entries().size());
  for (const auto& e : peers->file().entries()) {
    const auto* const mine = ours->file().find(e.name);
    BOOST_TEST_REQUIRE(mine != nullptr, e.name);
    BOOST_TEST((*check_ok(ours->file().bytes(*mine)) == *check_ok(peers->file().bytes(e))), e.name);
  }
}

BOOST_AUTO_TEST_CASE(options_that_are_not_computed_are_refused_by_name) {
  check_ok(parsed(""));
  check_ok(parsed(R"(, "use_dora": false, "eva_config": null, "rank_pattern": {}, "of_a_later_version": null)"));
  check_error(parsed(R"(, "use_dora": true)"),
              "'c.json': key 'use_dora': wanted null, because Troupe's adapters do not have it, got true");
  check_failed(parsed(R"(, "rank_pattern": {"q_proj": 2})"), "key 'rank_pattern': wanted null");
  check_failed(parsed(R"(, "of_a_later_version": 3)"), "key 'of_a_later_version': wanted null");
  check_failed(parsed(R"(, "init_lora_weights": "pissa")"),
               "key 'init_lora_weights': wanted true, false or \"gaussian\", which leave the base as it is, got "
               "\"pissa\"");
  check_failed(parsed(R"(, "bias": "all")"), "key 'bias': wanted \"none\", because biases stay frozen, got \"all\"");
  check_failed(parse_adapter_options(R"({"peft_type": "IA3"})", "c.json"),
               "key 'peft_type': wanted \"LORA\", got \"IA3\"");
  check_failed(parse_adapter_options(R"({"peft_type": "LORA", "r": 0})", "c.json"),
               "key 'r': wanted an integer from 1 to 65536, got 0");
  check_failed(parse_adapter_options("[]", "c.json"), "wanted a JSON object");
}

BOOST_AUTO_TEST_CASE(tensors_that_do_not_fit_the_options_are_refused) {
  const tests::scratch_folder at;
  check_ok(opened(at, ""));
  check_failed(opened(at, "", "base_model.model.a", 5), core::error_kind::mismatch, "has the shape (5, 3), and r is 4");
  check_failed(opened(at, "", "a"), core::error_kind::mismatch, "has no name of an adapter");
  const std::vector<float> zeros(12);
  check_ok(write_safetensors(at.path() / "adapter_model.safetensors",
                             std::vector<tensor_to_write>{{.name = "base_model.model.a.lora_A.weight",
                                                           .shape = {4, 3},
                                                           .bytes = std::as_bytes(std::span(zeros))}}));
  check_failed(peft_adapter::open(at.path()), core::error_kind::mismatch, "layer 'a' has only one of its two matrices");
  std::filesystem::remove(at.path() / "adapter_model.safetensors");
  at.write("adapter_model.bin", "");
  check_failed(peft_adapter::open(at.path()), "got adapter_model.bin; save it again");
  std::filesystem::remove(at.path() / "adapter_config.json");
  check_failed(peft_adapter::open(at.path()), "wanted a folder of PEFT, got one without adapter_config.json");
}

BOOST_AUTO_TEST_SUITE_END()
