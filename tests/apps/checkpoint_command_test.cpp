// Tests `troupe checkpoint ...` as a user sees it: inspecting, verifying, comparing, converting, and refusals.
#include <nlohmann/json.hpp>

#include "tests/apps/checkpoint_folder.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(checkpoint_command)

using namespace troupe;
using namespace troupe::tests;
using nlohmann::json;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_CASE(inspect_shows_tensors_files_and_the_run) {
  const checkpoints c;
  const auto r = check_exit(0, c.troupe({"inspect", "ck"}));
  for (const char* part : {"ck/step-00000006: troupe, step 6 (6 updates applied), 6 tensors of 336 B in 2 files\n",
                           "    wte\n      weight  [6, 4]\n        master fp32, 96 B, 1 piece: shard-0000"})
    BOOST_TEST_CONTEXT(part) BOOST_TEST(has(r.out, part), r.out);
  const auto j = check_exit(0, c.troupe({"inspect", "ck", "--tag", "step-00000005", "--json"}));
  const auto parsed = json::parse(j.out);
  BOOST_TEST(parsed["run"]["step"] == 5);
  BOOST_TEST(parsed["tensors"].size() == 6U);
}

BOOST_AUTO_TEST_CASE(verify_names_what_is_broken) {
  const checkpoints c;
  const auto good = check_exit(0, c.troupe({"verify", "ck"}));
  BOOST_TEST(has(good.out, "step-00000006: good: 6 tensors in 6 pieces, 336 B read, 336 B against their digests\n"),
             good.out);
  // Path of the shard that contains the pieces; the tensors are smaller than one block of 1,024 elements, so the other
  // shard is empty.
  fs::path shard;
  for (const char* name : {"shard-00000.bin", "shard-00001.bin"})
    if (fs::file_size(c.folder / "ck/step-00000006" / name) > 8192) shard = fs::path("ck/step-00000006") / name;
  c.flip(shard, 4096 + 3);
  const auto bad = check_exit(1, c.troupe({"verify", "ck"}));
  BOOST_TEST(has(bad.err, shard.filename().string() + "': the 16 bytes at byte 4096, elements 0 to 3 of tensor "
                                                      "'transformer.ln_f.weight' (master), do not match their digest"),
             bad.err);
  BOOST_TEST(has(bad.out, "1 damaged"), bad.out);
}

BOOST_AUTO_TEST_CASE(verify_says_so_where_the_format_has_no_digests) {
  const checkpoints c;
  BOOST_TEST_REQUIRE(c.troupe({"to-fp32", "ck", "w.safetensors"}).code == 0);
  BOOST_TEST_REQUIRE(c.troupe({"to-fp32", "ck", "w.pt"}).code == 0);
  const auto plain = check_exit(0, c.troupe({"verify", "w.safetensors"}));
  BOOST_TEST(has(plain.out, "the format has no digests"), plain.out);
  const auto archive = check_exit(0, c.troupe({"verify", "w.pt"}));
  BOOST_TEST(has(archive.out, "against the archives' CRC-32"), archive.out);
  const auto values = scratch_folder::read(c.folder / "w.pt");
  const auto first = c.tensors[3].data;  // bytes of the embedding's master weights
  const auto at = values.find(std::string(reinterpret_cast<const char*>(first.data()), first.size()));
  BOOST_TEST_REQUIRE(at != std::string::npos);
  c.flip("w.pt", static_cast<std::streamoff>(at));
  const auto broken = c.troupe({"verify", "w.pt"});
  BOOST_TEST(broken.code == 1, broken.out);
  BOOST_TEST(has(broken.err, "with tensor 'transformer.wte.weight' (weight), do not match their CRC-32"), broken.err);
  const auto refused = c.troupe({"to-fp32", "w.pt", "again.safetensors"});
  BOOST_TEST(refused.code == 2, refused.out);
  BOOST_TEST(has(refused.err, "do not match their CRC-32: the file is damaged"), refused.err);
  BOOST_TEST(!fs::exists(c.folder / "again.safetensors"));
}

BOOST_AUTO_TEST_CASE(diff_compares_any_two_formats) {
  const checkpoints c;
  BOOST_TEST_REQUIRE(c.troupe({"to-hf", "ck", "hf", "--quiet"}).code == 0);
  const auto same = check_exit(0, c.troupe({"diff", "ck", "hf"}));
  BOOST_TEST(same.out == "4 moments not compared: one of the two has none\n2 tensors compared, 112 B: equal\n");
  const auto other = check_exit(1, c.troupe({"diff", "ck/step-00000005", "hf"}));
  BOOST_TEST(
      has(other.out, "'transformer.wte.weight' (master) differs from element 0 on: 24 of 24 elements, by up to 1\n"),
      other.out);
  BOOST_TEST(c.troupe({"diff", "ck/step-00000005", "hf", "--tolerance", "1", "--quiet"}).code == 0);
  BOOST_TEST(c.troupe({"diff", "ck/step-00000005", "hf", "--tolerance", "0.9", "--quiet"}).code == 1);
  BOOST_TEST_REQUIRE(c.troupe({"to-hf", "ck", "half", "--dtype", "bf16"}).code == 0);
  const auto types = check_exit(1, c.troupe({"diff", "ck", "half"}));
  BOOST_TEST(has(types.out, "is fp32 in the first, bf16 in the second; they differ by up to "), types.out);
}

BOOST_AUTO_TEST_CASE(weights_come_out_as_files_that_others_read) {
  const checkpoints c;
  for (const char* out : {"w.safetensors", "w.pt", "w.bin", "folder"}) {
    BOOST_TEST_INFO_SCOPE(out);
    std::vector<std::string> command{"to-fp32", "ck", out};
    if (std::string(out) == "folder") command.insert(command.end(), {"--max-shard-size", "100"});
    const auto r = check_exit(0, c.troupe(command));
    BOOST_TEST(has(r.out, std::string(out) + ": 2 tensors, 112 B in "), r.out);
    BOOST_TEST(c.troupe({"diff", "ck", out, "--quiet"}).code == 0, out);
  }
  BOOST_TEST(fs::exists(c.folder / "folder/model-00002-of-00002.safetensors"));
  BOOST_TEST_REQUIRE(c.troupe({"to-hf", "ck", "hf"}).code == 0);
  const auto config = json::parse(scratch_folder::read(c.folder / "hf/config.json"));
  BOOST_TEST(config["n_embd"] == 4);
  BOOST_TEST(config["dtype"] == "float32");
  // A Hugging Face folder is also accepted as a checkpoint, and its config.json names the model.
  BOOST_TEST_REQUIRE(c.troupe({"to-hf", "hf", "again"}).code == 0);
  BOOST_TEST(scratch_folder::read(c.folder / "again/config.json") == scratch_folder::read(c.folder / "hf/config.json"));
}

BOOST_AUTO_TEST_CASE(averages_of_a_run_that_keeps_none_are_refused) {
  const checkpoints c;
  for (const char* to : {"to-fp32", "to-hf"})
    c.check_refused({to, "ck", "out", "--ema"}, 2,
                    "has no averages of its weights: wanted a checkpoint of a run with the section ema");
}

BOOST_AUTO_TEST_CASE(a_folder_written_for_deepspeed_comes_back_equal) {
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
  // A folder that Troupe wrote names its optimizer; a folder of DeepSpeed may lack the name.
  const auto whole = check_exit(0, c.troupe({"to-deepspeed", "two", "whole"}));
  BOOST_TEST(c.troupe({"diff", "ck", "whole", "--quiet"}).code == 0);
  const auto theirs = (fs::path(troupe::places::source_dir) / "tests/formats/fixtures/deepspeed/stage1_fp32").string();
  c.check_refused({"to-deepspeed", theirs, "ours"}, 2, "give a topology or ds_config.json by --job");
  const auto ours = check_exit(0, c.troupe({"to-deepspeed", theirs, "ours", "--job", "job.json"}));
  BOOST_TEST(c.troupe({"diff", theirs, "ours", "--quiet"}).code == 0);
}

BOOST_AUTO_TEST_CASE(a_tensors_name_that_is_no_text_is_refused_and_leaves_nothing) {
  const checkpoints c;
  const std::string good = "second.bias", bad = "secon\xFF.bias";
  for (const auto& entry : fs::directory_iterator(fs::path(troupe::places::source_dir) /
                                                  "tests/formats/fixtures/deepspeed/stage2_bf16/step2")) {
    std::string content = scratch_folder::read(entry.path());
    for (size_t at = content.find(good); at != content.npos; at = content.find(good, at)) content.replace(at, 11, bad);
    c.folder.write("theirs/" + entry.path().filename().string(), content);
  }
  const auto before = std::distance(fs::directory_iterator(c.folder.path()), {});
  for (const char* command : {"reshape", "to-universal", "to-fp32", "inspect"}) {
    const auto r =
        std::string(command) == "inspect" ? c.troupe({command, "theirs"}) : c.troupe({command, "theirs", "xo2"});
    BOOST_TEST(r.code == 2, command << ": " << r.err);
    BOOST_TEST(has(r.err, "a tensor's name, \"secon?.bias\", is not UTF-8"), command << ": " << r.err);
    BOOST_TEST(std::distance(fs::directory_iterator(c.folder.path()), {}) == before, command);
  }
}

BOOST_AUTO_TEST_CASE(deepspeeds_folders_are_shown_verified_and_converted_as_its_own_script_does) {
  const checkpoints c;
  const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/deepspeed";
  for (const char* name : {"stage1_bf16", "stage2_fp16", "stage3_fp32", "stage3_bf16"}) {
    BOOST_TEST_INFO_SCOPE(name);
    const auto folder = (fixtures / name).string();
    const auto good = check_exit(0, c.troupe({"verify", folder}));
    BOOST_TEST(has(good.out, "against the archives' CRC-32"), good.out);
    check_exit(0, c.troupe({"to-fp32", folder, name}));
    check_exit(0, c.troupe({"diff", folder, name}));
    const auto script = c.troupe({"diff", name, folder + ".safetensors"});
    // DeepSpeed's script omits the frozen parameters of stage 1.
    BOOST_TEST(has(script.out, std::string(name) == "stage1_bf16" ? "'frozen.weight' (weight) is only in the first\n11"
                                                                  : "12 tensors compared, "),
               script.out);
    BOOST_TEST(script.code == (std::string(name) == "stage1_bf16" ? 1 : 0), script.out);
  }
  const auto shown = c.troupe({"inspect", (fixtures / "stage3_bf16").string()});
  BOOST_TEST(has(shown.out, "\n  head.weight is embed.weight\n"), shown.out);
  BOOST_TEST(has(shown.out, "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt: "), shown.out);
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
  c.check_refused({"verify", "runs/x"}, 2, "'runs/x' is not a checkpoint");
}

BOOST_AUTO_TEST_CASE(anything_but_a_checkpoint_is_refused_in_one_line) {
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
  const auto previous = check_exit(0, c.troupe({"to-fp32", "ck", "out", "--fallback-to-previous"}));
  BOOST_TEST(has(previous.err, "step-00000006"), previous.err);
  BOOST_TEST(c.troupe({"diff", "ck/step-00000005", "out", "--quiet"}).code == 0);
  auto manifest = scratch_folder::read(ck / "step-00000005/manifest.json");
  c.folder.write("ck/step-00000005/manifest.json", replaced(manifest, "\"version\":1", "\"version\":5"));
  c.check_refused({"inspect", "ck/step-00000005"}, 2, "version 5");
  c.folder.write("ck/latest", "step-00000009\n");
  c.check_refused({"inspect", "ck"}, 2, "step-00000009");
  c.folder.write("ck/latest", "../ck/step-00000005\n");
  c.check_refused({"inspect", "ck"}, 2, "latest'");
}

BOOST_AUTO_TEST_CASE(every_command_that_reads_a_damaged_newest_checkpoint_says_how_an_older_one_is_taken) {
  const checkpoints c;
  for (const char* name : {"ck/step-00000006/shard-00000.bin", "ck/step-00000006/shard-00001.bin"})
    if (fs::file_size(c.folder / name) > 8192) c.flip(name, 4096 + 3);
  const std::string words = "; --fallback-to-previous takes the newest that is whole instead";
  const std::vector<std::vector<std::string>> commands{{"to-fp32", "ck", "out"},      {"to-hf", "ck", "out"},
                                                       {"to-dcp", "ck", "out"},       {"to-universal", "ck", "out"},
                                                       {"to-deepspeed", "ck", "out"}, {"reshape", "ck", "out"}};
  for (auto command : commands) {
    c.check_refused(command, 2, words);
    command.emplace_back("--fallback-to-previous");
    command[2] = command[0];
    check_exit(0, c.troupe(command));
  }
  const auto differs = c.troupe({"diff", "ck/step-00000005", "ck"});
  BOOST_TEST(differs.code == 2, differs.out);
  BOOST_TEST(has(differs.err, words), differs.err);
  c.folder.write("ck/step-00000006/manifest.json", "{");
  for (auto command : commands) c.check_refused(command, 2, "; --fallback-to-previous takes step-00000005 instead");
  for (const std::string command : {"inspect", "verify"})
    c.check_refused({command, "ck"}, 2, "; --fallback-to-previous takes step-00000005 instead");
}

BOOST_AUTO_TEST_CASE(options_that_would_do_nothing_are_refused_by_name) {
  const checkpoints c;
  c.check_refused({"reshape", "ck", "out", "--qkv-version", "2"}, 2,
                  "--qkv-version would do nothing here: it is for Megatron's");
  c.check_refused({"reshape", "ck", "out", "--to-qkv-version", "2"}, 2, "--to-qkv-version would do nothing here");
  c.check_refused({"to-fp32", "ck", "w.pt", "--max-shard-size", "1GB"}, 2,
                  "--max-shard-size would do nothing here: it is for a folder, and OUT is one file");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"reshape", "ck", "out", "--heads", "4"}, {"inspect", "ck", "--print-map", "--json"}})
    BOOST_TEST(c.troupe(words).code == 2, words.back());
  // A folder with only weights does not name an optimizer.
  BOOST_TEST_REQUIRE(c.troupe({"to-fp32", "ck", "w"}).code == 0);
  c.folder.write("w/config.json", tiny_model);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"reshape", "w", "out", "--job", "job.json"},
                                                {"reshape", "w", "out", "--integer-steps"},
                                                {"reshape", "w", "out", "--stage", "3"},
                                                {"reshape", "w", "out", "--dp", "2"},
                                                {"to-dcp", "w", "out", "--job", "job.json"}})
    c.check_refused(words, 2,
                    words[3] + " would do nothing here: it is for the states of an optimizer, and 'w' has none");
  const auto compress = [&](std::vector<std::string> more) {
    std::vector<std::string> command{troupe::places::troupe_binary, "compress", "w", "out"};
    command.insert(command.end(), more.begin(), more.end());
    const auto r = check_exit(2, run(command, c.folder.path()));
    return r.err;
  };
  for (const std::vector<std::string>& one : {std::vector<std::string>{"--samples", "0"},
                                              {"--sequence", "8"},
                                              {"--host-memory", "1GB"},
                                              {"--dtype", "fp32"},
                                              {"--max-shard-size", "1GB"}}) {
    auto words = one;
    words.insert(words.end(), {"--to", "gguf:q8_0"});
    const auto said = compress(words);
    BOOST_TEST(has(said, one[0] + " would do nothing here: it is for "), said);
  }
  BOOST_TEST(
      has(compress({"--tokenizer", "bytes", "--to", "compressed-tensors:int8"}), "--tokenizer would do nothing here"));
  for (const std::vector<std::string>& one : {std::vector<std::string>{"--samples", "8", "--calibrate", "corpus.txt"},
                                              {"--calibrate", "corpus.txt", "--validate", "none"}}) {
    auto words = one;
    words.insert(words.end(), {"--to", "compressed-tensors:int8"});
    const auto said = compress(words);
    BOOST_TEST(has(said, one[0] + " would do nothing here: it is for another --method than rtn"), said);
  }
  BOOST_TEST(
      has(compress({"--clean", "--group", "32"}), "--group would do nothing here: it is for --to, which is not given"));
}

BOOST_AUTO_TEST_CASE(a_pickle_that_needs_a_class_is_refused_by_its_name_and_nothing_runs) {
  using namespace std::string_literals;
  const checkpoints c;
  // The file is in torch.save's legacy format: magic number, version, system, the object, the keys of its storages. The
  // object is a dictionary with a tensor whose storage would be the result of os.system("touch touched").
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

BOOST_AUTO_TEST_SUITE_END()
