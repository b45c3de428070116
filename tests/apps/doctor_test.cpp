// Tests `troupe doctor`: the facts that it reads from a machine's files, its findings, and the command on this machine.
#include "apps/machine/doctor.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/apps/process.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/seccomp_filter.hpp"
#include "tests/skipped.hpp"

BOOST_AUTO_TEST_SUITE(doctor)

using namespace troupe::apps;
using troupe::tests::scratch_folder;

namespace {

constexpr const char* limits =
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max open files            1024                 524288               files     \n"
    "Max locked memory         8388608              unlimited            bytes     \n";

// Files of a server with two processors and a GPU; the program runs in a container on that server.
struct server {
  scratch_folder root;
  server() {
    root.write("proc/sys/kernel/osrelease", "6.6.1\n");
    root.write("proc/sys/kernel/io_uring_disabled", "2\n");
    root.write("proc/cpuinfo",
               "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\nflags\t\t: fpu avx2 fma f16c bmi1 bmi2\n\n"
               "processor\t: 1\nmodel name\t: Some CPU @ 2.00GHz\nflags\t\t: fpu avx2 fma f16c bmi1 bmi2\n");
    root.write("proc/meminfo",
               "MemTotal:       16000000 kB\nMemAvailable:   12000000 kB\nSwapTotal:             0 kB\n"
               "HugePages_Total:       8\nHugePages_Free:        3\nHugepagesize:       2048 kB\n");
    root.write("proc/self/limits", limits);
    root.write("proc/self/status", "Name:\ttroupe\nSeccomp:\t2\nSeccomp_filters:\t1\n");
    root.write("proc/self/cgroup", "0::/box/inner\n");
    root.write("sys/fs/cgroup/box/memory.max", "4096000000\n");
    root.write("sys/fs/cgroup/box/inner/memory.max", "max\n");
    root.write("sys/fs/cgroup/box/inner/cpu.max", "150000 100000\n");
    root.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    root.write("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size advise [never] deny force\n");
    root.write("sys/devices/system/node/node0/cpulist", "0\n");
    root.write("sys/devices/system/node/node1/cpulist", "1\n");
    root.write("sys/devices/system/node/online", "0-1\n");
    root.write("proc/driver/nvidia/version",
               "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\nGCC version: 12\n");
    root.write("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H100\nIRQ: 1\n");
    root.write("proc/self/mountinfo",
               "1 0 8:1 / / rw shared:1 - ext4 /dev/a rw\n2 1 0:5 / /scratch rw - tmpfs tmpfs rw\n"
               "3 1 8:2 / /scratch/disk rw shared:2 master:1 - xfs /dev/b rw\n");
  }
};

tried_facts all_well() {
  tried_facts t;
  t.usable_cores = 2;
  t.queue.engine = "io_uring";
  t.lock.good = t.io_uring.good = t.cuda.start.good = t.cuda.loaded = true;
  t.folder = {"/data", "ext4", uint64_t{1} << 40, {true, ""}, {true, ""}};
  t.train_program_there = true;
  t.cuda_library = {"/opt/bin/libtroupe_cuda.so", {true, ""}};
  t.train_program = "/opt/bin/troupe-train";
  return t;
}

machine_facts good_machine() {
  machine_facts m;
  m.cores = 2;
  m.cpu_flags = {"asimd"};
  m.memory_bytes = m.available_bytes = uint64_t{64} << 30;
  m.transparent_huge_pages = "madvise";
  m.shared_huge_pages = "advise";
  m.memlock_bytes = unlimited;
  m.open_files = 1 << 20;
  return m;
}

const finding& about(const std::vector<finding>& all, const std::string& topic) {
  for (const auto& f : all)
    if (f.topic == topic) return f;
  throw std::runtime_error("no finding about " + topic);
}

}  // namespace

BOOST_AUTO_TEST_CASE(facts_are_read_from_the_files_below_a_root) {
  const server s;
  const auto m = read_machine(s.root.path());
  BOOST_TEST(m.kernel == "6.6.1");
  BOOST_TEST(m.cores == 2U);
  BOOST_TEST(m.processor == "Some CPU @ 2.00GHz");
  BOOST_TEST(simd_of(m) == std::vector<std::string>{"AVX2"}, boost::test_tools::per_element());
  BOOST_TEST(m.memory_bytes == 16'000'000ULL * 1024);
  BOOST_TEST(m.available_bytes == 12'000'000ULL * 1024);
  BOOST_TEST(m.huge_pages_free == 3U);
  BOOST_TEST(m.transparent_huge_pages == "never");
  BOOST_TEST(m.shared_huge_pages == "never");
  BOOST_TEST(m.memlock_bytes == 8'388'608U);
  BOOST_TEST(m.open_files == 1024U);
  BOOST_TEST(m.open_files_hard.value_or(0) == 524'288U);
  BOOST_TEST(m.io_uring_disabled.value_or(0) == 2);
  BOOST_TEST(m.seccomp_filter);
  BOOST_TEST(m.numa_nodes == 2U);
  BOOST_TEST(m.cgroup_memory_bytes == 4'096'000'000U);
  BOOST_TEST(m.cgroup_cpus == 1.5);
  BOOST_TEST(m.nvidia_driver == "550.54.15");
  BOOST_TEST(m.gpus == std::vector<std::string>{"NVIDIA H100"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_instructions_that_are_used_are_named) {
  auto m = good_machine();
  m.cpu_flags = {"avx2", "fma", "f16c", "bmi1", "bmi2"};
  BOOST_TEST(about(examine(m, all_well()), "SIMD").found == "AVX2 is used");
  for (const char* flag : {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}) m.cpu_flags.emplace_back(flag);
  BOOST_TEST(about(examine(m, all_well()), "SIMD").found == "AVX-512 is used; there is AVX2 as well");
  auto limited = all_well();
  limited.aten_limit = "avx2";
  BOOST_TEST(about(examine(m, limited), "SIMD").found ==
             "AVX-512 is used by Troupe's kernels, ATEN_CPU_CAPABILITY=avx2 by LibTorch; there is AVX2 as well");
}

BOOST_AUTO_TEST_CASE(available_memory_is_the_same_that_train_counts_as_free) {
  const server s;
  s.root.write("proc/meminfo",
               "MemTotal: 16000000 kB\nMemAvailable: 12000000 kB\nSwapTotal: 900 kB\nSwapFree: 500 kB\n");
  BOOST_TEST(read_machine(s.root.path()).available_bytes == 12'000'500ULL * 1024);
  s.root.write("sys/fs/cgroup/box/memory.current", "1096000000\n");
  BOOST_TEST(read_machine(s.root.path()).available_bytes == 3'000'000'000U);
}

BOOST_AUTO_TEST_CASE(control_groups_of_version_1_are_read_too) {
  scratch_folder root;
  root.write("proc/self/cgroup", "4:memory:/box\n3:cpu,cpuacct:/box\n2:cpuset:/box\n");
  root.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1073741824\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000\n");
  root.write("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const auto m = read_machine(root.path());
  BOOST_TEST(m.cgroup_memory_bytes == 1'073'741'824U);
  BOOST_TEST(m.cgroup_cpus == 0.5);
}

BOOST_AUTO_TEST_CASE(an_empty_or_broken_root_gives_defaults) {
  scratch_folder root;
  BOOST_TEST(read_machine(root.path()).cores == 0U);
  for (const char* file :
       {"proc/cpuinfo", "proc/meminfo", "proc/self/limits", "proc/self/cgroup", "proc/self/mountinfo",
        "sys/kernel/mm/transparent_hugepage/enabled", "sys/kernel/mm/transparent_hugepage/shmem_enabled"})
    root.write(file, "]:[ \n::\nMax open files\nMemTotal: much\n");
  const auto m = read_machine(root.path());
  BOOST_TEST(m.memory_bytes == 0U);
  BOOST_TEST(m.transparent_huge_pages.empty());
  BOOST_TEST(m.shared_huge_pages.empty());
  BOOST_TEST(m.cgroup_memory_bytes == unlimited);
}

BOOST_AUTO_TEST_CASE(the_file_system_is_that_of_the_longest_mount_point_above_the_folder) {
  const server s;
  BOOST_TEST(file_system_of(s.root.path(), "/home") == "ext4");
  BOOST_TEST(file_system_of(s.root.path(), "/scratch") == "tmpfs");
  BOOST_TEST(file_system_of(s.root.path(), "/scratchy") == "ext4");
  BOOST_TEST(file_system_of(s.root.path(), "/scratch/disk/a") == "xfs");
}

BOOST_AUTO_TEST_CASE(on_a_good_machine_all_is_fine) {
  for (const auto& f : examine(good_machine(), all_well())) {
    BOOST_TEST((f.is == condition::fine), f.topic << ": " << f.found);
    BOOST_TEST(f.costs.empty());
  }
}

BOOST_AUTO_TEST_CASE(a_poor_finding_says_its_cost_and_the_command_that_mends_it) {
  const server s;
  auto t = all_well();
  t.io_uring = {false, "Operation not permitted"};
  t.queue = {"threads", {"io_uring: cannot create a ring"}};
  t.lock = {false, "memory: cannot lock more"};
  t.folder.file_system = "nfs";
  t.folder.direct = {false, "Invalid argument"};
  t.folder.free_bytes = 1000;
  const auto all = examine(read_machine(s.root.path()), t);
  for (const char* topic : {"cores", "huge pages", "shared pages", "memlock", "open files", "io_uring", "queue",
                            "folder", "O_DIRECT", "NUMA"}) {
    const auto& f = about(all, topic);
    BOOST_TEST((f.is == condition::poor), topic);
    BOOST_TEST(!f.costs.empty(), topic);
    BOOST_TEST(!f.command.empty(), topic);
  }
  BOOST_TEST(about(all, "huge pages").command == "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
  BOOST_TEST(about(all, "shared pages").found ==
             "transparent: never, so memory shared between processes has 4 KiB pages");
  BOOST_TEST(about(all, "shared pages").command ==
             "echo advise | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled");
  BOOST_TEST(about(all, "io_uring").command == "sudo sysctl kernel.io_uring_disabled=0");
  BOOST_TEST(about(all, "queue").found == "threads: io_uring: cannot create a ring");
  BOOST_TEST(about(all, "open files").command == "ulimit -n 4096");
  BOOST_TEST(about(all, "memory").found.find("4.1 GB (the container's limit") == 0U);
  BOOST_TEST(doctor_json(versions(), all).find("\"fit\": true") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_kernels_of_gpus_are_there_where_the_library_is) {
  const auto built = std::filesystem::path(troupe::places::troupe_binary).parent_path();
  const scratch_folder folder;
  std::filesystem::copy_file(built / "troupe", folder / "troupe");
  const auto said = [&] { return troupe::tests::run({(folder / "troupe").string(), "doctor"}, folder.path()).out; };
  BOOST_TEST(said().find(", CUDA kernels: no)\n") != std::string::npos, said());
  folder.write("libtroupe_cuda.so", "no library");
  BOOST_TEST(said().find(", CUDA kernels: yes)\n") != std::string::npos, said());
}

BOOST_AUTO_TEST_CASE(what_training_on_a_gpu_lacks_is_named_with_what_brings_it) {
  const server s;  // this server has an NVIDIA H100
  const auto m = read_machine(s.root.path());
  auto t = all_well();
  t.cuda.version = "13.0";
  t.cuda.devices = {"NVIDIA H100"};
  const auto well = examine(m, t);
  BOOST_TEST(about(well, "GPU").found == "NVIDIA H100, driver 550.54.15, CUDA 13.0");
  BOOST_TEST(about(well, "CUDA library").found == "/opt/bin/libtroupe_cuda.so opens, so device: cuda only needs a GPU");
  t.cuda.version = "12.4";
  const auto old = examine(m, t);
  BOOST_TEST((about(old, "GPU").is == condition::poor));
  BOOST_TEST(about(old, "GPU").command == "a driver for CUDA 13.0, release 580 or later");
  t.cuda_library.open = {false, "libcufile.so.0: cannot open shared object file: No such file or directory"};
  const auto lacks = examine(m, t);
  BOOST_TEST(about(lacks, "CUDA library").found == "/opt/bin/libtroupe_cuda.so lacks libcufile.so.0");
  BOOST_TEST(about(lacks, "CUDA library").command == "make setup DEVICE=cuda");
  t.cuda_library = {};
  const auto none = examine(m, t);
  BOOST_TEST((about(none, "CUDA library").is == condition::poor));
  BOOST_TEST(about(none, "CUDA library").command ==
             "sudo apt-get install ./troupe-cuda_*.deb (in a source tree: make build DEVICE=cuda)");
}

BOOST_AUTO_TEST_CASE(without_a_gpu_nothing_of_cudas_is_wanted) {
  auto t = all_well();
  t.cuda = {};
  t.cuda_library = {};
  const auto all = examine(good_machine(), t);
  BOOST_TEST(about(all, "GPU").found == "none (no NVIDIA driver is loaded); training runs on the processor");
  BOOST_TEST((about(all, "CUDA library").is == condition::fine));
  BOOST_TEST(about(all, "CUDA library").command == "");
}

BOOST_AUTO_TEST_CASE(what_refuses_rings_is_named) {
  auto t = all_well();
  t.io_uring = {false, "Operation not permitted"};
  auto m = good_machine();
  m.seccomp_filter = true;
  const auto filtered = examine(m, t);
  BOOST_TEST(about(filtered, "io_uring").found ==
             "refused by a seccomp filter, as that of container engines does (Operation not permitted)");
  m.seccomp_filter = false;
  t.io_uring.why = "Function not implemented";
  const auto old = examine(m, t);
  BOOST_TEST(about(old, "io_uring").found == "Function not implemented");
  BOOST_TEST(about(old, "io_uring").command.find("kernel") != std::string::npos);
  m.io_uring_disabled = 1;
  const auto off = examine(m, t);
  BOOST_TEST(about(off, "io_uring").found.starts_with("kernel.io_uring_disabled = 1"));
}

BOOST_AUTO_TEST_CASE(a_user_exempt_from_the_limit_of_locked_memory_is_told_so) {
  auto m = good_machine();
  m.memlock_bytes = 8'388'608;
  BOOST_TEST(about(examine(m, all_well()), "memlock").found == "8.4 MB, which does not apply to this user");
  auto t = all_well();
  t.lock.good = false;
  BOOST_TEST(about(examine(m, t), "memlock").command.find("limits.d") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_ring_without_registered_memory_says_why) {
  auto t = all_well();
  t.queue.remarks = {"io_uring: cannot register 5 bytes of memory"};
  const auto all = examine(good_machine(), t);
  const auto& f = about(all, "queue");
  BOOST_TEST((f.is == condition::poor));
  BOOST_TEST(f.found == "io_uring: cannot register 5 bytes of memory");
}

BOOST_AUTO_TEST_CASE(a_file_system_in_memory_is_no_place_to_offload_to_even_where_it_takes_direct_writes) {
  auto t = all_well();
  t.folder.file_system = "tmpfs";
  const auto all = examine(good_machine(), t);
  BOOST_TEST((about(all, "O_DIRECT").is == condition::poor));
  BOOST_TEST(about(all, "O_DIRECT").found == "/data (tmpfs) is in memory, not on a disk");
}

BOOST_AUTO_TEST_CASE(things_that_training_cannot_do_without_are_missing_and_not_only_poor) {
  auto t = all_well();
  t.train_program_there = false;
  BOOST_TEST((about(examine(good_machine(), t), "programs").is == condition::missing));
  t = all_well();
  t.torch_library = "/opt/lib/troupe/torch/lib/libtorch_cpu.so";
  BOOST_TEST((about(examine(good_machine(), t), "programs").is == condition::missing));
  t = all_well();
  t.folder.write = {false, "Permission denied"};
  auto all = examine(good_machine(), t);
  BOOST_TEST((about(all, "folder").is == condition::missing));
  BOOST_TEST(about(all, "folder").command == "name a folder that you may write to: troupe doctor FOLDER");
  t.folder = {};
  t.folder.asked_for = "/it's mine/not/there";
  all = examine(good_machine(), t);
  BOOST_TEST((about(all, "folder").is == condition::missing));
  BOOST_TEST(about(all, "folder").found == "'/it's mine/not/there' does not exist, nor the folder above it");
  BOOST_TEST(about(all, "folder").command == "mkdir -p '/it'\\''s mine/not/there'");
  BOOST_TEST(doctor_json(versions(), all).find("\"fit\": false") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(bytes_are_said_in_units_for_people) {
  BOOST_TEST(bytes_text(0) == "0 B");
  BOOST_TEST(bytes_text(8'388'608) == "8.4 MB");
  BOOST_TEST(bytes_text(999'600'000) == "1.0 GB");
  BOOST_TEST(bytes_text(unlimited) == "unlimited");
}

BOOST_AUTO_TEST_CASE(a_memory_file_system_refuses_direct_writes_and_a_folder_to_come_is_judged_by_its_parent) {
  const auto shared = try_folder("/dev/shm/not-yet-there");
  if (shared.file_system == "tmpfs") BOOST_TEST((shared.write.good && shared.path == "/dev/shm"));
  const auto nowhere = try_folder("/dev/shm/not/yet/there/");
  BOOST_TEST(nowhere.asked_for == "/dev/shm/not/yet/there");
  BOOST_TEST(!nowhere.write.good);
  const auto proc = try_folder("/proc");
  BOOST_TEST(!proc.write.good);
  BOOST_TEST(!proc.write.why.empty());
  const scratch_folder here;
  BOOST_TEST(try_folder(here.path()).write.good);
  BOOST_TEST(try_folder(here.path() / "a" / "..").path == here.path());
  BOOST_TEST(try_folder("/proc/version").write.why == "Not a directory");
  BOOST_TEST(std::filesystem::is_empty(here.path()));
}

BOOST_AUTO_TEST_CASE(the_command_says_it_in_json_and_leaves_nothing_behind) {
  const scratch_folder here;
  troupe::tests::process p({troupe::places::troupe_binary, "doctor", here.path().string(), "--json"}, here.path());
  const auto end = p.end();
  const auto j = nlohmann::json::parse(end.out);
  BOOST_TEST(end.code == (j["fit"].get<bool>() ? 0 : 1));
  BOOST_TEST(j["versions"]["troupe"].get<std::string>() == versions().troupe);
  BOOST_TEST(j["findings"].size() >= 13U);
  BOOST_TEST(std::filesystem::is_empty(here.path()));
}

BOOST_AUTO_TEST_CASE(it_says_that_a_filter_refuses_rings_and_what_that_means) {
  const scratch_folder here;
  const auto did = troupe::tests::run({troupe::places::troupe_binary, "doctor", here.path().string(), "--json"},
                                      here.path(), troupe::tests::forbid_io_uring);
  if (did.code == troupe::tests::no_filter) {
    troupe::tests::say_skipped("the doctor where rings are forbidden", "this kernel takes no seccomp filter from us");
    return;
  }
  const auto all = nlohmann::json::parse(did.out).at("findings");
  const auto about = [&](const char* topic) {
    return *std::ranges::find_if(all, [&](const auto& f) { return f["topic"] == topic; });
  };
  const auto ring = about("io_uring");
  BOOST_TEST(ring["condition"] == "poor");
  BOOST_TEST(ring["found"].get<std::string>().starts_with("refused by a seccomp filter"), ring.dump());
  BOOST_TEST(ring["costs"].get<std::string>().find("works through threads instead") != std::string::npos, ring.dump());
  BOOST_TEST(ring["command"].get<std::string>().find("--security-opt seccomp=") != std::string::npos, ring.dump());
  BOOST_TEST(about("queue")["found"].get<std::string>().starts_with("threads: io_uring: cannot create a ring"),
             did.out);
}

BOOST_AUTO_TEST_CASE(without_a_folder_to_write_to_it_ends_with_1) {
  troupe::tests::process p({troupe::places::troupe_binary, "doctor", "/proc"}, "/");
  const auto end = p.end();
  BOOST_TEST(end.code == 1);
  BOOST_TEST(end.out.find("missing folder") != std::string::npos);
  BOOST_TEST(end.out.find("sudo chown") == std::string::npos, end.out);
  const auto nowhere = troupe::tests::run({troupe::places::troupe_binary, "doctor", "/no/such/place"}, "/");
  BOOST_TEST(nowhere.code == 1);
  BOOST_TEST(nowhere.out.find("'/no/such/place' does not exist") != std::string::npos, nowhere.out);
}

BOOST_AUTO_TEST_SUITE_END()
