// Tests folders of torch.distributed.checkpoint: folders that PyTorch saved (tests/peer/troupe_resumes_distributed.py),
// folders that the test makes, and damaged ones.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <random>

#include "checkpoint/convert/checkpoint_names.hpp"
#include "checkpoint/convert/distributed_export.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "formats/compressed/source.hpp"
#include "formats/distributed/source.hpp"
#include "formats/report/diff.hpp"
#include "formats/report/verify.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/source/tensor_source.hpp"
#include "formats/torch/archive_writer.hpp"
#include "formats/torch/distributed_metadata.hpp"
#include "formats/torch/pickle_reader.hpp"
#include "formats/torch/pickle_writer.hpp"
#include "formats/torch/zip_reader.hpp"
#include "tests/counted_memory.hpp"
#include "tests/formats/mutations.hpp"
#include "tests/formats/random_source.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(distributed_source)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/distributed";

/// A folder with one fp32 matrix of 4 x 2: its chunks as (offsets, sizes), and the metadata that state where they are
/// stored.
struct small_folder {
  struct chunk {
    std::vector<int64_t> offsets, sizes;
  };
  std::vector<chunk> chunks{{{0, 0}, {2, 2}}, {{2, 0}, {2, 2}}};
  std::string path = "__0_0.distcp";
  torch_value type = torch_value::global("torch", "float32");
  torch_value transforms = {};
  int64_t more_bytes = 0;  ///< number of bytes added to the stated length of every chunk
  bool last_place = true;  ///< false: the metadata omit where the last chunk is stored

  /// Writes the folder to `at` and returns `at`.
  const scratch_folder& write(const scratch_folder& at) const {
    const auto of = [](const char* name) { return torch_value::object("torch.distributed.checkpoint.metadata", name); };
    fs::remove(at / "__0_0.distcp");
    auto file = check_ok(streamed_file::create(at / "__0_0.distcp"));
    auto boxes = torch_value::list(), places = torch_value::dict();
    int64_t begin = 0;
    for (size_t i = 0; i < chunks.size(); ++i) {
      const auto& c = chunks[i];
      const uint64_t numel = core::numel_of(c.sizes);
      const auto bytes = noise(numel * 4, i);
      const std::vector<torch_storage> storages{{core::dtype::f32, numel, bytes, {}}};
      const auto length = check_ok(append_torch_archive(*file, torch_view{0, 0, c.sizes}, storages));
      boxes.push(of("ChunkStorageMetadata")
                     .set("offsets", torch_value::size(c.offsets))
                     .set("sizes", torch_value::size(c.sizes)));
      auto info = torch_value::object("torch.distributed.checkpoint.filesystem", "_StorageInfo");
      info.set("relative_path", path).set("offset", begin).set("length", static_cast<int64_t>(*length) + more_bytes);
      info.set("transform_descriptors", transforms);
      if (last_place || i + 1 < chunks.size())
        places.set(of("MetadataIndex").set("fqn", "w").set("offset", torch_value::size(c.offsets)), std::move(info));
      begin += static_cast<int64_t>(*length);
    }
    check_ok(file->commit());
    auto tensors = torch_value::dict();
    tensors.set("w", of("TensorStorageMetadata")
                         .set("properties", of("TensorProperties").set_state(torch_value::tuple({type})))
                         .set("size", torch_value::size({4, 2}))
                         .set("chunks", std::move(boxes)));
    put(at, of("Metadata").set("state_dict_metadata", std::move(tensors)).set("storage_data", std::move(places)));
    return at;
  }

  static void put(const scratch_folder& at, const torch_value& root) {
    pickle_writer out;
    root.write(out, [](pickle_writer&, const torch_view&) {});
    at.write(".metadata", out.finish());
  }
};

void check_folder_refused(const small_folder& folder, error_kind kind, const std::string& words) {
  const scratch_folder at;
  check_failed(read_distributed_source(folder.write(at).path()), kind, words);
}

}  // namespace

BOOST_AUTO_TEST_CASE(folders_of_pytorch_have_its_weights_and_moments) {
  for (const std::string name : {"gpt2_fsdp", "llama_2d"}) {
    BOOST_TEST_CONTEXT(name) {
      const auto got = check_ok(open_source(fixtures / name));
      const auto wanted = check_ok(hugging_face_format.open(fixtures / (name + ".safetensors"), {}));
      BOOST_TEST(got->tensors.size() == wanted->tensors.size());
      for (const auto& t : got->tensors) {
        const auto* w =
            find_tensor(*wanted, t.kind == tensor_kind::moment ? t.name + "/" + t.moment : t.name, tensor_kind::weight);
        BOOST_REQUIRE_MESSAGE(w != nullptr, shown(t));
        BOOST_TEST((w->shape == t.shape && bytes_in(*got, t) == bytes_in(*wanted, *w)), shown(t));
      }
      BOOST_TEST(got->run.steps.value() == 3U);
      BOOST_TEST(got->run.applied_updates.value() == 3U);
      BOOST_TEST(got->format == "PyTorch distributed");
      const auto checked = check_ok(verify_source(real_files(), *got));
      BOOST_TEST(checked->damages == 0U);
      BOOST_TEST(checked->compared_bytes > 0U);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_newest_folder_of_megatron_core_has_a_number_or_is_a_release) {
  const scratch_folder at;
  for (const auto& [text, name] :
       {std::pair{"30\n", "iter_0000030"}, {"release\n", "release"}, {"release", "release"}}) {
    at.write("latest_checkpointed_iteration.txt", text);
    BOOST_TEST((*check_ok(checkpoint::newest_named_in(at.path())))->name == name);
  }
  for (const char* text : {"", "released", "3x"}) {
    at.write("latest_checkpointed_iteration.txt", text);
    check_failed(checkpoint::newest_named_in(at.path()), error_kind::bad_input,
                 "the number of an iteration or 'release' was wanted");
  }
}

BOOST_AUTO_TEST_CASE(folders_of_megatron_core_have_weights_and_what_names_its_parameters) {
  const fs::path root = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/torch_dist";
  const auto wanted = check_ok(hugging_face_format.open(root / "expected.safetensors", {}));
  for (const bool has_names : {true, false}) {
    BOOST_TEST_INFO_SCOPE("has names " << has_names);
    const auto got = check_ok(open_source(root / (has_names ? "fully_reshardable" : "dp_reshardable")));
    BOOST_TEST(got->format == "Megatron-Core torch_dist");
    BOOST_TEST(got->remarks.size() == (has_names ? 0U : 1U));
    for (const auto& line : got->remarks)
      BOOST_TEST((line.starts_with(left_out_mark) && line.ends_with("which do not name a parameter")), line);
    BOOST_TEST(got->tensors.size() == (has_names ? 12U : 3U));
    for (const auto& t : got->tensors) {
      const auto state = t.kind == tensor_kind::master   ? "/fp32_param"
                         : t.kind == tensor_kind::moment ? "/" + t.moment
                                                         : "";
      const auto* w = find_tensor(*wanted, t.name + state, tensor_kind::weight);
      BOOST_REQUIRE_MESSAGE(w != nullptr, shown(t));
      BOOST_TEST((w->shape == t.shape && bytes_in(*got, t) == bytes_in(*wanted, *w)), shown(t));
    }
    BOOST_TEST(got->run.steps.value() == 30U);
    BOOST_TEST(got->run.applied_updates.value() == 28U);
    BOOST_TEST(got->run.samples.value() == 240U);
    BOOST_TEST(got->run.samples_per_step.value() == 8U);
  }
}

BOOST_AUTO_TEST_CASE(a_cut_over_two_dimensions_is_few_pieces) {
  const auto got = check_ok(read_distributed_source(fixtures / "llama_2d"));
  const auto* t = find_tensor(*got, "model.layers.0.mlp.down_proj.weight", tensor_kind::master);
  BOOST_REQUIRE(t != nullptr);
  BOOST_TEST(t->cut.dimension == 1U);
  BOOST_TEST(t->pieces.size() == 4U);
}

BOOST_AUTO_TEST_CASE(chunks_of_any_mesh_are_laid_together) {
  const std::vector<std::vector<small_folder::chunk>> meshes{
      {{{0, 0}, {4, 2}}},
      {{{0, 0}, {4, 1}}, {{0, 1}, {4, 1}}},
      {{{0, 0}, {3, 1}}, {{3, 0}, {1, 1}}, {{0, 1}, {3, 1}}, {{3, 1}, {1, 1}}},
      // The chunks form no grid, and the last one is empty.
      {{{0, 0}, {1, 2}}, {{1, 0}, {3, 1}}, {{1, 1}, {3, 1}}, {{4, 0}, {0, 2}}},
  };
  for (const auto& mesh : meshes) {
    const scratch_folder at;
    const small_folder folder{.chunks = mesh};
    const auto got = check_ok(read_distributed_source(folder.write(at).path()));
    const auto bytes = bytes_in(*got, got->tensors.at(0));
    for (size_t i = 0; i < mesh.size(); ++i) {
      BOOST_TEST_INFO_SCOPE("i " << i);
      const auto& c = mesh[i];
      const auto its = noise(core::numel_of(c.sizes) * 4, i);
      for (int64_t row = 0; row < c.sizes[0]; ++row)
        for (int64_t column = 0; column < c.sizes[1]; ++column) {
          BOOST_TEST_INFO_SCOPE("column " << column);
          BOOST_TEST_INFO_SCOPE("row " << row);
          const auto from = static_cast<size_t>(row * c.sizes[1] + column) * 4;
          const auto to = static_cast<size_t>((c.offsets[0] + row) * 2 + c.offsets[1] + column) * 4;
          BOOST_TEST(same_bytes(std::span(its).subspan(from, 4), std::span(bytes).subspan(to, 4)));
        }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read_back) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    const scratch_folder at;
    const random_source random(seed, core::dtype::f32, at.path());
    const auto& from = random.source;
    distributed_write_options options{.ranks = static_cast<uint32_t>(1 + seed % 5), .groups = {{}}};
    fs::create_directory(at / "out");
    check_ok(write_distributed_folder(from, at / "out", options));
    const auto got = check_ok(open_source(at / "out"));
    for (const auto& t : from.tensors) {
      if (t.kind != tensor_kind::master && t.kind != tensor_kind::moment) continue;
      const auto* same = find_tensor(*got, t.name, t.kind, t.moment);
      BOOST_REQUIRE_MESSAGE(same != nullptr, shown(t));
      BOOST_TEST((same->shape == t.shape && bytes_in(*got, *same) == bytes_in(from, t)), shown(t));
    }
    BOOST_TEST(got->run.steps.value() == from.run.applied_updates.value_or(from.run.steps.value_or(0)));
    for (const auto& t : from.tied) BOOST_TEST(std::ranges::count(got->tied, t) == 1, t.name);
  }
}

BOOST_AUTO_TEST_CASE(what_leads_out_of_the_folder_or_its_files_is_refused) {
  check_folder_refused({.path = "../__0_0.distcp"}, error_kind::bad_input, "not a file of the folder");
  check_folder_refused({.path = "/etc/passwd"}, error_kind::bad_input, "not a file of the folder");
  check_folder_refused({.path = "x/../../y"}, error_kind::bad_input, "not a file of the folder");
  check_folder_refused({.more_bytes = 1}, error_kind::bad_input, "reach beyond the end of");
  check_folder_refused({.last_place = false}, error_kind::bad_input,
                       "the file and offset of 'w' from element (2, 0) on are missing");
}

BOOST_AUTO_TEST_CASE(chunks_that_overlap_or_leave_a_gap_are_refused) {
  check_folder_refused({.chunks = {{{0, 0}, {3, 2}}, {{2, 0}, {2, 2}}}}, error_kind::bad_input, "overlaps");
  check_folder_refused({.chunks = {{{0, 0}, {4, 2}}, {{0, 1}, {4, 1}}}}, error_kind::bad_input, "overlaps");
  check_folder_refused({.chunks = {{{0, 0}, {1, 2}}, {{2, 0}, {2, 2}}}}, error_kind::bad_input, "no piece holds");
  check_folder_refused({.chunks = {{{0, 0}, {2, 2}}, {{3, 0}, {2, 2}}}}, error_kind::bad_input,
                       "reaches beyond its shape");
  check_folder_refused({.chunks = {{{0, 0}, {4, 2}}, {{0, 0}, {4, 2}}}}, error_kind::bad_input, "two chunks begin");
}

BOOST_AUTO_TEST_CASE(transforms_and_types_that_are_not_torchs_are_refused_by_name) {
  check_folder_refused({.transforms = torch_value::list({"stream.zstd"})}, error_kind::bad_input, "'stream.zstd'");
  check_folder_refused({.type = torch_value::global("posix", "float32")}, error_kind::bad_input,
                       "a type of torch was wanted, got posix.float32");
  check_folder_refused({.type = torch_value::global("torch", "float16")}, error_kind::bad_input, "another type");
}

BOOST_AUTO_TEST_CASE(a_list_that_would_run_a_command_is_refused_and_does_nothing) {
  const scratch_folder at;
  const auto command = torch_value::call("posix", "system", {"touch " + (at / "pwned").string()});
  small_folder::put(at, command);
  check_failed(read_distributed_source(at.path()), error_kind::bad_input, "posix.system");
  auto inside = torch_value::object("torch.distributed.checkpoint.metadata", "Metadata");
  inside.set("state_dict_metadata", torch_value::dict().set("w", command)).set("storage_data", torch_value::dict());
  small_folder::put(at, inside);
  check_failed(read_distributed_source(at.path()), error_kind::bad_input, "'w': TensorStorageMetadata");
  BOOST_TEST(!fs::exists(at / "pwned"));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_cut_short_or_gone_is_refused) {
  const scratch_folder at;
  fs::copy(fixtures / "gpt2_fsdp", at / "ck");
  fs::resize_file(at / "ck/__1_0.distcp", fs::file_size(at / "ck/__1_0.distcp") - 1);
  check_failed(open_source(at / "ck"), error_kind::bad_input, "__1_0.distcp");
  fs::remove(at / "ck/__1_0.distcp");
  check_failed(open_source(at / "ck"), error_kind::bad_input, "__1_0.distcp");
}

BOOST_AUTO_TEST_CASE(a_model_and_an_optimizer_in_folders_of_their_own_are_one_checkpoint) {
  const fs::path root = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/torch_dist";
  const auto wanted = check_ok(hugging_face_format.open(root / "expected.safetensors", {}));
  const auto got = check_ok(open_source(root / "accelerate"));
  BOOST_TEST(got->tensors.size() == 9U);
  for (const auto& t : got->tensors) {
    const auto state = t.kind == tensor_kind::moment ? "/" + t.moment : "/fp32_param";
    const auto* w = find_tensor(*wanted, t.name + state, tensor_kind::weight);
    BOOST_REQUIRE_MESSAGE(w != nullptr, shown(t));
    BOOST_TEST(bytes_in(*got, t) == bytes_in(*wanted, *w), shown(t));
  }
  BOOST_TEST(got->run.steps.value() == 28U);
  const scratch_folder at;
  fs::create_directory(at / "ck");
  fs::copy(root / "accelerate/pytorch_model_fsdp_0", at / "ck/pytorch_model_fsdp_0", fs::copy_options::recursive);
  fs::copy(root / "accelerate/pytorch_model_fsdp_0", at / "ck/optimizer_0", fs::copy_options::recursive);
  check_failed(open_source(at / "ck"), error_kind::bad_input, "is also in another folder");
}

BOOST_AUTO_TEST_CASE(updates_are_counted_wherever_an_optimizer_counts_them) {
  const fs::path counters = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/counters";
  struct counted {
    std::string name;
    std::optional<uint64_t> updates;
    std::string remark;
  };
  const std::vector<counted> cases{
      {"integer", 5, ""},
      {"group", 5, ""},
      {"schedule", 5, "the schedule's last_epoch, 5, is used as the number of steps: the optimizer stores none"},
      {"different", 5,
       "the optimizer counts 5 updates of one parameter and 2 of 'optim.state.b.step': every parameter continues "
       "with 5"},
      {"none", std::nullopt, ""}};
  for (const auto& [name, updates, remark] : cases) BOOST_TEST_CONTEXT(name) {
      const auto got = check_ok(open_source(counters / name));
      BOOST_TEST((got->run.steps == updates && got->run.applied_updates == updates));
      BOOST_TEST((got->remarks == (remark.empty() ? std::vector<std::string>{} : std::vector{remark})));
      for (const std::string of : {"w", "b"}) BOOST_TEST_CONTEXT(of)
      BOOST_TEST(
          (find_tensor(*got, of, tensor_kind::moment, name == "schedule" ? "momentum_buffer" : "exp_avg") != nullptr));
    }
}

BOOST_AUTO_TEST_CASE(verify_names_the_tensor_of_a_damaged_item) {
  const scratch_folder at;
  fs::copy(fixtures / "gpt2_fsdp", at / "ck");
  auto source = check_ok(open_source(at / "ck"));
  const auto t = source->tensors.at(7);
  const auto& p = t.pieces.at(1);
  auto bytes = scratch_folder::read(source->files[p.file].path);
  bytes[p.offset_bytes] = static_cast<char>(bytes[p.offset_bytes] ^ 1);
  at.write("ck/" + source->files[p.file].path.filename().string(), bytes);
  source = open_source(at / "ck");
  check_ok(source);
  const auto report = check_ok(verify_source(real_files(), *source));
  BOOST_REQUIRE(report->damages == 1U);
  BOOST_TEST(report->listed[0].text.find(t.name) != std::string::npos, report->listed[0].text);
  std::vector<std::byte> read(bytes_of(t.type, t.shape).value());
  check_failed(source_reader(*source).read(t, 0, core::numel_of(t.shape), read), error_kind::bad_input,
               std::string(sum_differs));
}

BOOST_AUTO_TEST_CASE(damaged_lists_are_read_or_refused) {
  const scratch_folder at;
  fs::copy(fixtures / "llama_2d", at / "ck");
  const auto good = scratch_folder::read(at / "ck/.metadata");
  size_t read = 0;
  for_mutations(good, 21, pickle_hints, [&](size_t i, const std::string& broken) {
    fs::remove(at / "ck/.metadata");
    at.write("ck/.metadata", broken);
    const memory_mark mark;
    {
      const auto source = read_distributed_source(at / "ck");
      if (source && ++read % 8 == 0)
        for (const auto& t : source->tensors) BOOST_TEST(bytes_in(*source, t).size() > 0);
    }
    BOOST_REQUIRE_MESSAGE(mark.taken() <= broken.size() * max_pickle_memory_factor + (size_t{4} << 20), i);
  });
  BOOST_TEST(read < mutations());
}

BOOST_AUTO_TEST_CASE(damaged_items_are_read_or_refused) {
  const scratch_folder at;
  small_folder().write(at);
  const auto good = scratch_folder::read(at / "__0_0.distcp");
  size_t read = 0;
  for_mutations(good, 22, pickle_hints, [&](size_t, const std::string& broken) {
    fs::remove(at / "__0_0.distcp");
    at.write("__0_0.distcp", broken);
    const auto source = read_distributed_source(at.path());
    if (!source) return;
    ++read;
    BOOST_TEST(core::numel_of(source->tensors.at(0).shape) * core::size_of(source->tensors.at(0).type) == 32U);
    BOOST_TEST(is_read_or_refused(*source, source->tensors.at(0)));
  });
  BOOST_TEST(read > 0U);
  BOOST_TEST(read < mutations());
}

BOOST_AUTO_TEST_SUITE_END()
