// `troupe checkpoint ...` as a user sees it: what comes out, what is said, how it ends, what stays behind.
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/apps/topology.hpp"
#include "tests/checkpoint/native_samples.hpp"

using namespace troupe;
using namespace troupe::tests;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string tiny_model =
    R"({"model_type":"gpt2","n_layer":1,"n_embd":4,"n_head":1,"n_positions":4,"vocab_size":6})";

/// A folder with the checkpoints ck/step-00000005 and ck/step-00000006 of a small model's embedding and norm.
struct checkpoints {
  scratch_folder folder;
  std::vector<sample_tensor> tensors;

  checkpoints() {
    for (const uint64_t step : {5U, 6U}) {
      tensors.clear();
      for (const char* name : {"transformer.ln_f.weight", "transformer.wte.weight"}) {
        const std::vector<int64_t> shape = name[12] == 'l' ? std::vector<int64_t>{4} : std::vector<int64_t>{6, 4};
        for (const char* moment : {"", "exp_avg", "exp_avg_sq"}) {
          const auto kind = *moment != 0 ? checkpoint::tensor_kind::moment : checkpoint::tensor_kind::master;
          std::vector<float> values(shape.size() == 1 ? 4 : 24);
          for (size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(step) + static_cast<float>(tensors.size() * 100 + i) / 64;
          const auto bytes = std::as_bytes(std::span(values));
          tensors.push_back({{name, kind, moment, core::dtype::f32, shape, {}}, {bytes.begin(), bytes.end()}});
        }
      }
      checkpoint::manifest m;
      m.run.applied_updates = step;
      m.run.model = tiny_model;
      m.run.config = smallest;
      m.run.parameter_order = {"transformer.wte.weight", "transformer.ln_f.weight"};
      check_ok(save_sample(checkpoint::real_files(), folder / "ck", step, tensors, 2, std::move(m)));
    }
    folder.write("corpus.txt", "x");
    folder.write("job.json", R"({"train_batch_size": 2, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}})");
  }

  finished troupe(std::vector<std::string> arguments, const std::function<void()>& prepare = {}) const {
    std::vector<std::string> command{TROUPE_BINARY, "checkpoint"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run(command, folder.path(), prepare);
  }
  void flip(const fs::path& file, std::streamoff at) const {
    std::fstream f(folder.path() / file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(at);
    const int byte = f.get();
    f.seekp(at);
    f.put(static_cast<char>(byte ^ 1));
  }
  /// Names in the folder, those of the constructor left out.
  [[nodiscard]] std::vector<std::string> written() const {
    std::vector<std::string> out;
    for (const auto& e : fs::directory_iterator(folder.path()))
      if (const auto name = e.path().filename().string(); name != "ck" && name != "corpus.txt" && name != "job.json")
        out.push_back(name);
    std::sort(out.begin(), out.end());
    return out;
  }
  void check_refused(const std::vector<std::string>& arguments, int code, const std::string& part) const {
    const auto before = written();
    const auto r = troupe(arguments);
    BOOST_TEST(r.code == code, arguments.front() << " ended with " << r.code << ": " << r.err);
    BOOST_TEST(has(r.err, part), "no '" << part << "' in: " << r.err);
    BOOST_TEST(lines_of(r.err) == 1U, r.err);
    BOOST_TEST(r.out == "");
    BOOST_TEST(written() == before, boost::test_tools::per_element());
  }
};

/// A header that says one tensor of so many fp16 elements, and a file of that length that takes no room.
void write_sparse_safetensors(const fs::path& path, uint64_t elements) {
  std::string header = R"({"w":{"dtype":"F16","shape":[)" + std::to_string(elements) + R"(],"data_offsets":[0,)" +
                       std::to_string(elements * 2) + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string head(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(head.data(), &size, 8);
  std::ofstream(path, std::ios::binary) << head << header;
  fs::resize_file(path, 8 + header.size() + elements * 2);
}

/// The program that is executed next may not write where modes forbid it, even as root.
void obey_modes() { ::prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0); }

}  // namespace

BOOST_AUTO_TEST_SUITE(checkpoint_command)

BOOST_AUTO_TEST_CASE(inspect_shows_tensors_files_and_the_run) {
  const checkpoints c;
  const auto r = c.troupe({"inspect", "ck"});
  BOOST_TEST_REQUIRE(r.code == 0, r.err);
  for (const char* part : {"ck/step-00000006: troupe, step 6 (6 updates applied), 6 tensors of 336 B in 2 files\n",
                           "    wte\n      weight  [6, 4]\n        master fp32, 96 B, 1 piece: shard-0000"})
    BOOST_TEST(has(r.out, part), r.out);
  const auto j = c.troupe({"inspect", "ck", "--tag", "step-00000005", "--json"});
  BOOST_TEST_REQUIRE(j.code == 0, j.err);
  const auto parsed = json::parse(j.out);
  BOOST_TEST(parsed["run"]["step"] == 5);
  BOOST_TEST(parsed["tensors"].size() == 6U);
}

BOOST_AUTO_TEST_CASE(verify_names_what_is_broken) {
  const checkpoints c;
  const auto good = c.troupe({"verify", "ck"});
  BOOST_TEST(good.code == 0, good.err);
  BOOST_TEST(has(good.out, "step-00000006: good: 6 tensors in 6 pieces, 336 B read, 336 B against their digests\n"),
             good.out);
  fs::path shard;  // that holds a piece: blocks of 1,024 elements leave one of the two empty
  for (const char* name : {"shard-00000.bin", "shard-00001.bin"})
    if (fs::file_size(c.folder / "ck/step-00000006" / name) > 8192) shard = fs::path("ck/step-00000006") / name;
  c.flip(shard, 4096 + 3);
  const auto bad = c.troupe({"verify", "ck"});
  BOOST_TEST(bad.code == 1);
  BOOST_TEST(has(bad.err, shard.filename().string() + "': the 16 bytes at byte 4096, elements 0 to 4 of tensor "
                                                      "'transformer.ln_f.weight' (master), do not have their digest"),
             bad.err);
  BOOST_TEST(has(bad.out, "1 damaged"), bad.out);
}

BOOST_AUTO_TEST_CASE(verify_says_so_where_the_format_has_no_digests) {
  const checkpoints c;
  BOOST_TEST_REQUIRE(c.troupe({"to-fp32", "ck", "w.safetensors"}).code == 0);
  BOOST_TEST_REQUIRE(c.troupe({"to-fp32", "ck", "w.pt"}).code == 0);
  const auto plain = c.troupe({"verify", "w.safetensors"});
  BOOST_TEST(plain.code == 0, plain.err);
  BOOST_TEST(has(plain.out, "the format has no digests"), plain.out);
  const auto archive = c.troupe({"verify", "w.pt"});
  BOOST_TEST(archive.code == 0, archive.err);
  BOOST_TEST(has(archive.out, "against the archives' CRC-32"), archive.out);
  const auto values = scratch_folder::read(c.folder / "w.pt");
  const auto first = c.tensors[3].data;  // the embedding's master
  const auto at = values.find(std::string(reinterpret_cast<const char*>(first.data()), first.size()));
  BOOST_TEST_REQUIRE(at != std::string::npos);
  c.flip("w.pt", static_cast<std::streamoff>(at));
  const auto broken = c.troupe({"verify", "w.pt"});
  BOOST_TEST(broken.code == 1, broken.out);
  BOOST_TEST(has(broken.err, "with tensor 'transformer.wte.weight' (weight), do not have their CRC-32"), broken.err);
}

BOOST_AUTO_TEST_CASE(diff_compares_any_two_formats) {
  const checkpoints c;
  BOOST_TEST_REQUIRE(c.troupe({"to-hf", "ck", "hf", "--quiet"}).code == 0);
  const auto same = c.troupe({"diff", "ck", "hf"});
  BOOST_TEST(same.code == 0, same.out);
  BOOST_TEST(same.out == "4 moments not compared: one of the two has none\n2 tensors compared, 112 B: equal\n");
  const auto other = c.troupe({"diff", "ck/step-00000005", "hf"});
  BOOST_TEST(other.code == 1);
  BOOST_TEST(
      has(other.out, "'transformer.wte.weight' (master) differs from element 0 on: 24 of 24 elements, by up to 1\n"),
      other.out);
  BOOST_TEST(c.troupe({"diff", "ck/step-00000005", "hf", "--tolerance", "1", "--quiet"}).code == 0);
  BOOST_TEST(c.troupe({"diff", "ck/step-00000005", "hf", "--tolerance", "0.9", "--quiet"}).code == 1);
  BOOST_TEST_REQUIRE(c.troupe({"to-hf", "ck", "half", "--dtype", "bf16"}).code == 0);
  const auto types = c.troupe({"diff", "ck", "half"});
  BOOST_TEST(types.code == 1);
  BOOST_TEST(has(types.out, "is fp32 in the first, bf16 in the second; they differ by up to "), types.out);
}

BOOST_AUTO_TEST_CASE(weights_come_out_as_files_that_others_read) {
  const checkpoints c;
  for (const char* out : {"w.safetensors", "w.pt", "w.bin", "folder"}) {
    const auto r = c.troupe({"to-fp32", "ck", out, "--max-shard-size", "100"});
    BOOST_TEST_REQUIRE(r.code == 0, r.err);
    BOOST_TEST(has(r.out, std::string(out) + ": 2 tensors, 112 B in "), r.out);
    BOOST_TEST(c.troupe({"diff", "ck", out, "--quiet"}).code == 0, out);
  }
  BOOST_TEST(fs::exists(c.folder / "folder/model-00002-of-00002.safetensors"));
  BOOST_TEST_REQUIRE(c.troupe({"to-hf", "ck", "hf"}).code == 0);
  const auto config = json::parse(scratch_folder::read(c.folder / "hf/config.json"));
  BOOST_TEST(config["architectures"][0] == "GPT2LMHeadModel");
  BOOST_TEST(config["n_embd"] == 4);
  BOOST_TEST(config["dtype"] == "float32");
  // Hugging Face's folder is a checkpoint too, and says its own model.
  BOOST_TEST_REQUIRE(c.troupe({"to-hf", "hf", "again"}).code == 0);
  BOOST_TEST(scratch_folder::read(c.folder / "again/config.json") == scratch_folder::read(c.folder / "hf/config.json"));
}

BOOST_AUTO_TEST_CASE(what_is_written_for_deepspeed_comes_back_equal) {
  const checkpoints c;
  const std::vector<std::vector<std::string>> commands = {
      {"to-deepspeed", "ck", "stage1", "--stage", "1", "--ranks", "3"},
      {"to-deepspeed", "ck", "stage3", "--stage", "3", "--ranks", "2", "--dtype", "bf16"},
      {"to-universal", "ck", "universal"},
      {"reshape", "ck", "two", "--tp", "2"}};
  for (const auto& command : commands) {
    const auto r = c.troupe(command);
    BOOST_TEST_REQUIRE(r.code == 0, command[0] << ": " << r.err);
    const auto same = c.troupe({"diff", "ck", command[2]});
    BOOST_TEST(same.code == 0, command[2] << ": " << same.out << same.err);
    BOOST_TEST(has(same.out, "6 tensors compared, 336 B: equal\n"), same.out);
  }
  BOOST_TEST(scratch_folder::read(c.folder / "latest_universal") == "universal");
  // A folder of ours names its optimizer; one of DeepSpeed's need not.
  const auto whole = c.troupe({"to-deepspeed", "two", "whole"});
  BOOST_TEST(whole.code == 0, whole.err);
  BOOST_TEST(c.troupe({"diff", "ck", "whole", "--quiet"}).code == 0);
  const auto theirs = (fs::path(TROUPE_SOURCE_DIR) / "tests/checkpoint/fixtures/deepspeed/stage1_fp32").string();
  c.check_refused({"to-deepspeed", theirs, "ours"}, 2, "wanted a topology or ds_config.json by --job");
  const auto ours = c.troupe({"to-deepspeed", theirs, "ours", "--job", "job.json"});
  BOOST_TEST(ours.code == 0, ours.err);
  BOOST_TEST(c.troupe({"diff", theirs, "ours", "--quiet"}).code == 0);
}

BOOST_AUTO_TEST_CASE(a_tensors_name_that_is_no_text_is_refused_and_leaves_nothing) {
  const checkpoints c;
  const std::string good = "second.bias", bad = "secon\xFF.bias";
  for (const auto& entry :
       fs::directory_iterator(fs::path(TROUPE_SOURCE_DIR) / "tests/checkpoint/fixtures/deepspeed/stage2_bf16/step2")) {
    std::string content = scratch_folder::read(entry.path());
    for (size_t at = content.find(good); at != content.npos; at = content.find(good, at)) content.replace(at, 11, bad);
    c.folder.write("theirs/" + entry.path().filename().string(), content);
  }
  const auto before = std::distance(fs::directory_iterator(c.folder.path()), {});
  for (const char* command : {"reshape", "to-universal", "to-fp32", "inspect"}) {
    const auto r =
        std::string(command) == "inspect" ? c.troupe({command, "theirs"}) : c.troupe({command, "theirs", "xo2"});
    BOOST_TEST(r.code == 2, command << ": " << r.err);
    BOOST_TEST(has(r.err, "a tensor's name, \"secon\xEF\xBF\xBD.bias\", is not UTF-8"), command << ": " << r.err);
    BOOST_TEST(std::distance(fs::directory_iterator(c.folder.path()), {}) == before, command);
  }
}

BOOST_AUTO_TEST_CASE(deepspeeds_folders_are_shown_verified_and_converted_as_its_own_script_does) {
  const checkpoints c;
  const fs::path fixtures = fs::path(TROUPE_SOURCE_DIR) / "tests/checkpoint/fixtures/deepspeed";
  for (const char* name : {"stage1_bf16", "stage2_fp16", "stage3_fp32", "stage3_bf16"}) {
    const auto folder = (fixtures / name).string();
    const auto good = c.troupe({"verify", folder});
    BOOST_TEST(good.code == 0, good.err);
    BOOST_TEST(has(good.out, "against the archives' CRC-32"), good.out);
    const auto r = c.troupe({"to-fp32", folder, name});
    BOOST_TEST_REQUIRE(r.code == 0, r.err);
    const auto back = c.troupe({"diff", folder, name});
    BOOST_TEST(back.code == 0, back.out);
    const auto script = c.troupe({"diff", name, folder + ".safetensors"});
    // which forgets stage 1's frozen parameters
    BOOST_TEST(has(script.out, std::string(name) == "stage1_bf16" ? "'frozen.weight' (weight) is only in the first\n11"
                                                                  : "12 tensors compared, "),
               script.out);
    BOOST_TEST(script.code == (std::string(name) == "stage1_bf16" ? 1 : 0), script.out);
  }
  const auto shown = c.troupe({"inspect", (fixtures / "stage3_bf16").string()});
  BOOST_TEST(has(shown.out, "\n  head.weight is embed.weight\n"), shown.out);
  BOOST_TEST(has(shown.out, "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt: "), shown.out);
}

BOOST_AUTO_TEST_CASE(what_is_there_already_stays_unless_told_otherwise) {
  const checkpoints c;
  c.folder.write("full/mine.txt", "mine");
  c.folder.write("w.safetensors", "mine");
  fs::create_directory(c.folder / "empty");
  c.check_refused({"to-hf", "ck", "full"}, 2, "'full' exists and is not empty: wanted a new name, or --force");
  c.check_refused({"to-fp32", "ck", "full"}, 2, "'full' exists and is not empty");
  c.check_refused({"to-fp32", "ck", "w.safetensors"}, 2, "'w.safetensors' exists");
  c.check_refused({"to-hf", "ck", "ck", "--force"}, 2, "'ck' cannot be replaced: 'ck/step-00000006', which is read");
  c.check_refused({"to-hf", "ck", "full", "--force"}, 2, "'full' cannot be replaced: it has no '.troupe-conversion'");
  c.check_refused({"to-fp32", "ck", "w.safetensors", "--force"}, 2,
                  "'w.safetensors' cannot be replaced: it is no file");
  BOOST_TEST(c.troupe({"to-hf", "ck", "empty"}).code == 0);
  BOOST_TEST(scratch_folder::read(c.folder / "full/mine.txt") == "mine");
  BOOST_TEST(scratch_folder::read(c.folder / "w.safetensors") == "mine");
  const std::vector<std::string> all = {"empty", "full", "w.safetensors"};
  BOOST_TEST(c.written() == all, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(force_replaces_what_a_conversion_wrote_and_nothing_else) {
  const checkpoints c;
  for (const char* out : {"w.safetensors", "w.pt", "w.bin", "folder"}) {
    BOOST_TEST(c.troupe({"to-fp32", "ck/step-00000005", out}).code == 0);
    c.check_refused({"to-fp32", "ck", out}, 2, "--force to replace it");
    const auto r = c.troupe({"to-fp32", "ck", out, "--force"});
    BOOST_TEST(r.code == 0, r.err);
    BOOST_TEST(c.troupe({"diff", "ck", out, "--quiet"}).code == 0, out);
  }
  for (const char* command : {"to-hf", "to-deepspeed", "to-universal", "reshape"}) {
    const auto r = c.troupe({command, "ck", "folder/", "--force"});
    BOOST_TEST(r.code == 0, r.err);
    BOOST_TEST(c.troupe({"diff", "ck", "folder", "--quiet"}).code == 0, command);
  }
  c.folder.write("folder/mine.txt", "mine");
  c.check_refused({"to-hf", "ck", "folder", "--force"}, 2, "it holds 'mine.txt', which no conversion wrote");
  fs::remove(c.folder / "folder/mine.txt");
  BOOST_TEST_REQUIRE(c.troupe({"to-hf", "ck", "folder", "--force"}).code == 0);
  c.folder.write("folder/config.json", "{}");
  c.check_refused({"to-hf", "ck", "folder", "--force"}, 2, "'config.json' in it was changed");
  fs::create_directory_symlink("folder", c.folder / "link");
  fs::create_symlink("w.pt", c.folder / "link.pt");
  c.check_refused({"to-hf", "ck", "link", "--force"}, 2, "'link' cannot be replaced: it is a link");
  c.check_refused({"to-fp32", "ck", "link.pt", "--force"}, 2, "'link.pt' cannot be replaced: it is a link");
  for (const char* name : {"..", "ck/..", "."})
    c.check_refused({"to-hf", "ck", name, "--force"}, 2, "wanted the name of a folder");
}

BOOST_AUTO_TEST_CASE(what_is_read_is_never_replaced) {
  const checkpoints c;
  BOOST_TEST_REQUIRE(c.troupe({"to-fp32", "ck", "dd"}).code == 0);
  BOOST_TEST_REQUIRE(c.troupe({"to-fp32", "ck", "w.pt"}).code == 0);
  fs::create_directory_symlink("dd", c.folder / "link");
  fs::create_directory(c.folder / "away");
  fs::create_symlink("../dd/model.safetensors", c.folder / "away/model.safetensors");
  // By its bare name from inside, by itself, through a link to its folder, from a folder of links.
  const auto inside =
      run({TROUPE_BINARY, "checkpoint", "to-fp32", "model.safetensors", "../dd", "--force"}, c.folder / "dd");
  BOOST_TEST(inside.code == 2);
  BOOST_TEST(has(inside.err, "'../dd' cannot be replaced: "), inside.err);
  BOOST_TEST(has(inside.err, "model.safetensors', which is read, lies in it"), inside.err);
  for (const auto& [from, to] : {std::pair("dd", "dd"), std::pair("link/model.safetensors", "dd"),
                                 std::pair("away", "dd"), std::pair("w.pt", "w.pt")})
    c.check_refused({"to-fp32", from, to, "--force"}, 2, std::string("'") + to + "' cannot be replaced: '");
  BOOST_TEST(c.troupe({"diff", "dd", "w.pt", "--quiet"}).code == 0);
}

BOOST_AUTO_TEST_CASE(two_conversions_into_one_output_are_one_too_many) {
  const checkpoints c;
  write_sparse_safetensors(c.folder / "large.safetensors", uint64_t{1} << 28);
  for (const char* out : {"out", "out.pt"}) {
    const auto room = c.folder / (std::string(".") + out + ".part");
    process first({TROUPE_BINARY, "checkpoint", "to-fp32", "large.safetensors", out}, c.folder.path());
    while (scratch_folder::read(room / ".lock").empty())
      BOOST_TEST_REQUIRE(first.wait_for_work(std::chrono::milliseconds(1)));
    c.check_refused({"to-fp32", "ck", out}, 2,
                    std::string("cannot write '") + out + "': './." + out + ".part' is in use: process ");
    BOOST_TEST(fs::exists(room));
    first.send(SIGKILL);
    BOOST_TEST(first.end().code == 128 + SIGKILL);
    BOOST_TEST(fs::exists(room));  // what a crash leaves the next one clears away.
    const auto r = c.troupe({"to-fp32", "ck", out});
    BOOST_TEST(r.code == 0, r.err);
    BOOST_TEST(!fs::exists(room));
    BOOST_TEST(c.troupe({"diff", "ck", out, "--quiet"}).code == 0);
  }
  c.folder.write(".other.part/mine.txt", "mine");
  c.check_refused({"to-fp32", "ck", "other"}, 2, "'./.other.part' is in the way");
  BOOST_TEST(scratch_folder::read(c.folder / ".other.part/mine.txt") == "mine");
  BOOST_TEST(!fs::exists(c.folder / ".other.part/.lock"));
}

BOOST_AUTO_TEST_CASE(the_name_of_another_universal_folder_stays_unless_told_otherwise) {
  const checkpoints c;
  BOOST_TEST_REQUIRE(c.troupe({"to-universal", "ck", "first"}).code == 0);
  c.check_refused({"to-universal", "ck", "second"}, 2, "latest_universal' names 'first': wanted --force");
  BOOST_TEST(scratch_folder::read(c.folder / "latest_universal") == "first");
  BOOST_TEST(c.troupe({"to-universal", "ck", "second", "--force"}).code == 0);
  BOOST_TEST(scratch_folder::read(c.folder / "latest_universal") == "second");
  fs::remove_all(c.folder / "second");
  BOOST_TEST(c.troupe({"to-universal", "ck", "second"}).code == 0);  // It names this one already.
}

BOOST_AUTO_TEST_CASE(an_ending_of_files_that_are_not_written_makes_no_folder_of_that_name) {
  const checkpoints c;
  for (const char* out : {"out.npz", "out.gguf", "out.safetensor"})
    c.check_refused({"to-fp32", "ck", out}, 2,
                    std::string("'") + out + "': wanted NAME.safetensors, NAME.pt, NAME.pth, NAME.bin or the name of");
  for (const char* out : {"out.npz/", "llama-3.1", "llama-3.1-8b"}) {
    BOOST_TEST(c.troupe({"to-fp32", "ck", out}).code == 0);
    BOOST_TEST(fs::is_directory(c.folder / out));
  }
  BOOST_TEST(c.troupe({"to-fp32", "ck", "out.pth"}).code == 0);
  BOOST_TEST(fs::is_regular_file(c.folder / "out.pth"));
}

BOOST_AUTO_TEST_CASE(a_runs_output_folder_stands_for_its_checkpoints) {
  const checkpoints c;
  fs::create_directories(c.folder / "runs/x");
  fs::rename(c.folder / "ck", c.folder / "runs/x/checkpoints");
  c.folder.write("runs/x/report.html", "");
  for (const auto& command : std::vector<std::vector<std::string>>{{"verify", "runs/x"},
                                                                   {"inspect", "runs/x", "--tag", "step-00000005"},
                                                                   {"diff", "runs/x", "runs/x/checkpoints"},
                                                                   {"to-fp32", "runs/x", "out"}}) {
    const auto r = c.troupe(command);
    BOOST_TEST(r.code == 0, command[0] << ": " << r.err);
  }
  fs::rename(c.folder / "runs/x/checkpoints", c.folder / "ck");
  c.check_refused({"verify", "runs/x"}, 2, "'runs/x' is no checkpoint");
}

BOOST_AUTO_TEST_CASE(what_is_no_checkpoint_is_refused_in_one_line) {
  const checkpoints c;
  for (const char* command : {"inspect", "verify"}) {
    c.check_refused({command, "nowhere"}, 2, "'nowhere'");
    c.check_refused({command, "corpus.txt"}, 2, "corpus.txt'");
    c.check_refused({command, "."}, 2, "'.'");
  }
  c.check_refused({"to-fp32", "nowhere", "out"}, 2, "'nowhere'");
  c.check_refused({"diff", "ck", "nowhere"}, 2, "'nowhere'");
  c.check_refused({"inspect", "ck", "--tag", "step-00000007"}, 2, "step-00000007");
  c.check_refused({"to-fp32", "ck", "out", "--max-shard-size", "many"}, 2, "--max-shard-size: ");
  c.check_refused({"to-hf", "ck", "out", "--dtype", "int8"}, 2, "--dtype: wanted fp32, bf16 or fp16, got 'int8'");
}

BOOST_AUTO_TEST_CASE(broken_checkpoints_are_refused_by_the_file_that_is_broken) {
  const checkpoints c;
  const auto ck = c.folder.path() / "ck";
  fs::rename(ck / "step-00000006/shard-00001.bin", c.folder / "corpus.txt");
  c.check_refused({"to-fp32", "ck", "out"}, 2, "'ck/step-00000006/shard-00001.bin': No such file");
  const auto previous = c.troupe({"to-fp32", "ck", "out", "--fallback-to-previous"});
  BOOST_TEST(previous.code == 0, previous.err);
  BOOST_TEST(has(previous.err, "step-00000006"), previous.err);
  BOOST_TEST(c.troupe({"diff", "ck/step-00000005", "out", "--quiet"}).code == 0);
  auto manifest = scratch_folder::read(ck / "step-00000005/manifest.json");
  c.folder.write("ck/step-00000005/manifest.json", replaced(manifest, "\"version\":1", "\"version\":2"));
  c.check_refused({"inspect", "ck/step-00000005"}, 2, "version 2");
  c.folder.write("ck/latest", "step-00000009\n");
  c.check_refused({"inspect", "ck"}, 2, "step-00000009");
  c.folder.write("ck/latest", "../ck/step-00000005\n");
  c.check_refused({"inspect", "ck"}, 2, "latest'");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_is_said_before_it_is_tried) {
  const checkpoints c;
  const auto free = fs::space(c.folder.path()).available;
  write_sparse_safetensors(c.folder / "huge.safetensors", free / 4 + (1 << 20));
  c.check_refused({"to-fp32", "huge.safetensors", "out"}, 1, "bytes are needed, ");
  c.check_refused({"to-fp32", "huge.safetensors", "out.pt"}, 1, "are free in '.'");
  c.check_refused({"to-fp32", "ck", "nowhere/out"}, 2, "'nowhere' is no folder");
  fs::create_directory(c.folder / "locked");
  fs::permissions(c.folder / "locked", fs::perms::owner_read | fs::perms::owner_exec);
  for (const char* out : {"locked/out", "locked/out.safetensors"}) {
    const auto r = c.troupe({"to-fp32", "ck", out}, obey_modes);
    BOOST_TEST(r.code == 1, r.err);
    BOOST_TEST(has(r.err, "'locked': Permission denied"), r.err);
  }
  fs::permissions(c.folder / "locked", fs::perms::owner_all);
  BOOST_TEST(fs::is_empty(c.folder / "locked"));
}

BOOST_AUTO_TEST_CASE(a_pickle_that_needs_a_class_is_refused_by_its_name_and_nothing_runs) {
  using namespace std::string_literals;
  const checkpoints c;
  // torch.save's legacy stream: magic, version, system, the object, its storages' keys. The object is a dictionary with
  // a tensor whose storage is what os.system("touch touched") would give.
  const auto pickle = [](const std::string& body) { return "\x80\x02" + body + "."; };
  const auto call = "cos\nsystem\nX\x0d\0\0\0touch touched\x85R"s;
  c.folder.write("bad.pt", pickle("\x8a\nl\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19") + pickle("M\xe9\x03") + pickle("}") +
                               pickle("}X\x01\0\0\0w"s + "ctorch._utils\n_rebuild_tensor_v2\n(" + call +
                                      "K\0K\4\x85K\1\x85\x89NtRs"s) +
                               pickle("]"));
  c.check_refused({"inspect", "bad.pt"}, 2, "os.system");
  c.check_refused({"to-fp32", "bad.pt", "out"}, 2, "os.system");
  BOOST_TEST(!fs::exists(c.folder / "touched"));
}

BOOST_AUTO_TEST_CASE(an_interrupt_leaves_nothing_half_written) {
  const checkpoints c;
  write_sparse_safetensors(c.folder / "large.safetensors", uint64_t{1} << 27);
  process p({TROUPE_BINARY, "checkpoint", "to-fp32", "large.safetensors", "out"}, c.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for_work(std::chrono::milliseconds(20)));
  p.send(SIGINT);
  const auto r = p.end();
  BOOST_TEST(r.code == 130, r.err);
  const std::vector<std::string> all = {"large.safetensors"};
  BOOST_TEST(c.written() == all, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
