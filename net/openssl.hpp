// Wraps OpenSSL's objects in smart pointers, and reads keys and certificates. Used only by the sources of this folder.
#pragma once

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

namespace troupe::net {

template <auto Free>
struct freed_by {
  void operator()(auto* x) const { Free(x); }
};
using key_pointer = std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>>;
using certificate_pointer = std::unique_ptr<X509, freed_by<X509_free>>;
using bio_pointer = std::unique_ptr<BIO, freed_by<BIO_free_all>>;

/// A secret text; its destructor overwrites the bytes.
class secret_text {
 public:
  explicit secret_text(std::string text) : text_(std::move(text)) {}
  secret_text(const secret_text&) = delete;
  secret_text& operator=(const secret_text&) = delete;
  ~secret_text() { OPENSSL_cleanse(text_.data(), text_.size()); }
  [[nodiscard]] std::string_view get() const { return text_; }

 private:
  std::string text_;
};

inline std::string text_in(BIO* b) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(b, &data);
  return bytes > 0 ? std::string(data, static_cast<size_t>(bytes)) : std::string();
}

inline bio_pointer memory_of(std::string_view text) {
  return bio_pointer(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// Returns the private key in `pem`; null for an invalid text or a key with a password. Never asks for a password on
/// the terminal.
inline key_pointer key_in(std::string_view pem) {
  const auto nobody = [](char*, int, int, void*) { return -1; };
  return key_pointer(PEM_read_bio_PrivateKey(memory_of(pem).get(), nullptr, nobody, nullptr));
}
inline certificate_pointer certificate_in(std::string_view pem) {
  return certificate_pointer(PEM_read_bio_X509(memory_of(pem).get(), nullptr, nullptr, nullptr));
}

/// Returns the common name of a certificate's subject, with control characters replaced; empty if there is none.
std::string common_name_of(X509* certificate);
/// Returns the first host name or IP address for which a certificate was issued; empty if there is none.
std::string host_name_of(X509* certificate);
/// Returns a time as text in the form "2027-11-26 04:00:00 UTC".
std::string text_of_time(const ASN1_TIME* t);

}  // namespace troupe::net
