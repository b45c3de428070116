#include "apps/agent/host_examiner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <span>

#include "apps/machine/doctor.hpp"
#include "apps/machine/machine.hpp"
#include "apps/machine/probes.hpp"
#include "core/system/cores.hpp"
#include "net/own_address.hpp"
#include "net/tls_mover.hpp"
#include "storage/files/digest.hpp"

namespace troupe::apps {
namespace fs = std::filesystem;
namespace {

/// Nanoseconds for which a host's byte mover waits for connections to the byte movers of other hosts.
constexpr int64_t connecting_ns = 10'000'000'000;
const std::string measuring = "doctor";  ///< job name in the names of the connections over which the doctor measures

std::string digest_of_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return {};
  storage::digest_stream all;
  std::vector<char> block(size_t{1} << 20);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())), in.gcount() > 0)
    all.add(std::as_bytes(std::span(block).first(static_cast<size_t>(in.gcount()))));
  return storage::to_hex(all.value());
}

std::string own_addresses_text() {
  std::string out;
  for (const auto& x : net::own_addresses())
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", x.address, x.interface);
  return out;
}

}  // namespace

std::string product_instructions(const std::string& processor, const std::vector<std::string>& flags,
                                 const char* capability) {
  constexpr std::array known = {"avx2",     "fma",      "avx_vnni",    "avx512f",     "avx512bw",
                                "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16", "avx512_fp16",
                                "amx_tile", "amx_bf16", "amx_int8",    "asimd",       "asimdhp",
                                "bf16",     "i8mm",     "sve",         "sve2"};
  // The text begins with the processor's maker, the first word of its name, because math libraries choose their code by
  // the maker, too.
  std::string out = processor.substr(0, processor.find_first_of(" ("));
  for (const char* one : known)
    if (std::ranges::find(flags, one) != flags.end()) out += std::string(out.empty() ? "" : " ") + one;
  if (capability != nullptr) out += fmt::format(" (ATEN_CPU_CAPABILITY={})", capability);
  return out;
}

host_examiner::host_examiner(examiner_setup setup) : setup_(std::move(setup)) {}
host_examiner::~host_examiner() { end(); }

void host_examiner::end() {
  mover_.reset();  // destroyed before the meter, which the byte mover may call until then
  meter_.reset();
}

std::string host_examiner::answer(const std::string& question) {
  const auto q = decode_question(question);
  if (!q)
    return encode_answer(core::result<no_answer>(
        core::fail(core::error_kind::mismatch, "wanted a question of this version's doctor, got another")));
  return std::visit([this](const auto& x) { return encode_answer(follow(x)); }, *q);
}

core::result<host_facts> host_examiner::follow(const look_question& q) {
  const auto machine = read_machine("/");
  const auto v = versions();
  host_facts out;
  out.version = fmt::format("troupe {} (LibTorch {}, {})", v.troupe, v.libtorch, v.compiler);
  out.program = digest_of_file(setup_.program);
  out.configuration = setup_.configuration;
  out.processor = machine.processor;
  out.instructions = product_instructions(machine.processor, machine.cpu_flags, std::getenv("ATEN_CPU_CAPABILITY"));
  out.cores = core::usable_cores() > 0 ? core::usable_cores() : machine.cores;
  out.memory_bytes = std::min(machine.memory_bytes, machine.cgroup_memory_bytes);
  out.available_bytes = std::min(machine.available_bytes, out.memory_bytes);
  const auto folder = try_folder(q.folder);
  out.folder = folder.asked_for.empty() ? folder.path.string() : q.folder;
  out.free_bytes = folder.free_bytes;
  if (!folder.asked_for.empty())
    out.cannot_write = "it does not exist, nor the folder above it";
  else if (!folder.write.good)
    out.cannot_write = folder.write.why;
  std::error_code e;
  out.sees_token = fs::exists(q.token, e);
  for (const auto& file : q.files)
    if (!fs::exists(file, e)) out.missing_files.push_back(file);
  return out;
}

// Opens the byte mover at the address that a process of the job would choose (apps/run/train.cpp); an error
// names the key that is wrong.
core::result<mover_place> host_examiner::follow(const open_question& q) {
  std::array<std::byte, 32> secret{};
  if (q.secret.size() != secret.size())
    return core::fail(core::error_kind::mismatch, fmt::format("wanted a secret of 32 bytes, got {}", q.secret.size()));
  std::memcpy(secret.data(), q.secret.data(), secret.size());
  end();
  const net::term_key key{net::term_secret(secret), measuring, 1, q.place};
  TROUPE_ASSIGN(const auto address, net::chosen_address(q.bind, q.interface, setup_.address));
  auto mover = net::tls_mover::open({key, address});
  if (!mover) {
    const auto& why = mover.error();
    return core::fail(why.kind, fmt::format("{}{}; this host has {}", q.bind.empty() ? "" : "cluster.hosts[].bind: ",
                                            why.text, own_addresses_text()));
  }
  mover_ = std::move(*mover);
  meter_ = std::make_unique<pair_meter>(*mover_);
  mover_->on_lost([this](uint32_t place, const core::error& why) { meter_->lose(place, why); });
  place_ = q.place;
  return mover_place{q.place, address, mover_->port()};
}

core::result<no_answer> host_examiner::follow(const connect_question& q) {
  if (mover_ == nullptr) return core::fail(core::error_kind::bad_input, "wanted a mover that is open, got none");
  std::map<uint32_t, net::mover_peer> others;
  for (const auto& m : q.all)
    if (m.place != place_) others[m.place] = {m.host, m.port};
  TROUPE_TRY(mover_->connect(others, connecting_ns));
  return no_answer{};
}

core::result<pair_speed> host_examiner::follow(const measure_question& q) {
  if (meter_ == nullptr) return core::fail(core::error_kind::bad_input, "wanted a mover that is open, got none");
  return meter_->measure(q.place);
}

}  // namespace troupe::apps
