// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
public import LarderEngine

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A custom storage behind a ``PersistentCache``: it stores bytes under strings.
///
/// ```swift
/// final class Files: CacheStorage {
///   subscript(key: String) -> Data? {
///     get { try? Data(contentsOf: url(of: key)) }
///     set { /* write the file, or remove it if newValue is nil */ }
///   }
/// }
/// let cache = PersistentCache<String, [Int]>(storage: Files(), namespace: "scores")
/// ```
///
/// The cache calls it on the threads of its callers, several at a time, so it must be thread-safe. A
/// read must return the bytes of the last write. The storage may use other caches, and other keys of
/// the cache that calls it.
///
/// ## Coherence
///
/// Caches of this process over the same object agree: after one writes a value, the others never read
/// an older one. A change by another process to the same files or the same server is read when the
/// value is not in memory (``PersistentCache/clearMemoryCache(completion:)``). Caches over a
/// ``/LarderEngine/SharedStore`` are never stale, whatever process writes.
///
/// ## Keys
///
/// The text of a key is `namespace/tag/key`, in ASCII. The namespace, and keys that are strings or
/// descriptions, are their UTF-8, in which each byte except `A-Z a-z 0-9 . _ -` is `%` and two
/// hexadecimal digits. The tag is the number of ``/LarderCoding/KeyTag``; keys of other tags are their
/// bytes in hexadecimal. So two keys of any namespaces have different texts, and none of the three parts
/// contains a `/`. ``CacheOptions/readsPersistentCacheKitEntries`` also reads the texts of
/// PersistentCacheKit.
public protocol CacheStorage: AnyObject, Sendable {
  /// The bytes of a key, or `nil` if it has none. Setting `nil` removes the key.
  subscript(key: String) -> Data? { get set }

  /// Waits until all bytes that were set are stored.
  func sync()

  /// Removes every key whose text begins with `prefix`: those of a namespace.
  ///
  /// Only `PersistentCache.removeAll()` calls it, and throws its error.
  func removeAll(withPrefix prefix: String) throws
}

extension CacheStorage {
  /// Returns at once: the default is for a storage whose subscript stores before it returns.
  public func sync() {}

  /// Throws ``/LarderEngine/StoreError`` with the code `unsupportedByStorage`.
  public func removeAll(withPrefix prefix: String) throws {
    throw StoreError.unsupported(
      "removeAll", "Implement removeAll(withPrefix:) in the storage, or remove single keys.")
  }
}

extension StoreError.Code {
  /// A ``CacheStorage`` does not support the operation.
  public static let unsupportedByStorage = StoreError.Code(rawValue: "unsupportedByStorage")
}

extension StoreError {
  static func unsupported(_ operation: String, _ remedy: String) -> StoreError {
    StoreError(
      .unsupportedByStorage, during: operation,
      "The cache's storage does not support this operation. \(remedy)")
  }
}

/// The texts of keys in a custom storage. The encoding is injective and in ASCII, where each letter has
/// one form, so that no storage confuses two keys; no namespace is a prefix of another one.
package enum CustomStorageKey {
  package static func prefix(_ namespace: String) -> String { escaped(namespace.utf8) + "/" }

  package static func text(_ key: EncodedKey, in namespace: String) -> String {
    let isText =
      key.tag == KeyTag.text.rawValue || key.tag == KeyTag.described.rawValue
    return prefix(namespace) + "\(key.tag)/"
      + (isText ? escaped(key.bytes) : hexadecimal(key.bytes))
  }

  private static let digits = Array("0123456789abcdef".utf8)

  package static func escaped(_ bytes: some Sequence<UInt8>) -> String {
    var result: [UInt8] = []
    for byte in bytes {
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: result.append(byte)
      default: result += [0x25, digits[Int(byte >> 4)], digits[Int(byte & 15)]]
      }
    }
    return String(decoding: result, as: UTF8.self)
  }

  /// Returns the namespace and the key of a text, or `nil` if it is not that of a key.
  package static func parse(_ text: some StringProtocol) -> (namespace: String, key: EncodedKey)? {
    let parts = text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    guard parts.count == 3, let namespace = unescaped(parts[0]),
      let tag = UInt8(String(decoding: parts[1], as: UTF8.self))
    else { return nil }
    let isText = tag == KeyTag.text.rawValue || tag == KeyTag.described.rawValue
    guard let bytes = isText ? unescaped(parts[2]) : pairs(parts[2][...]),
      let name = String(validating: namespace, as: UTF8.self)
    else { return nil }
    return (name, EncodedKey(tag: tag, bytes: bytes))
  }

  /// Returns the bytes of an escaped text, or `nil` if it is none.
  package static func unescaped(_ text: some Sequence<UInt8>) -> [UInt8]? {
    var result: [UInt8] = []
    var rest = Array(text)[...]
    while let byte = rest.popFirst() {
      if byte != 0x25 {
        result.append(byte)
        continue
      }
      guard let value = pairs(rest.prefix(2)), value.count == 1 else { return nil }
      result += value
      rest = rest.dropFirst(2)
    }
    return result
  }

  private static func pairs(_ text: some Sequence<UInt8>) -> [UInt8]? {
    let values = text.map { digits.firstIndex(of: $0) }
    guard values.count % 2 == 0, !values.contains(nil) else { return nil }
    return stride(from: 0, to: values.count, by: 2).map {
      UInt8(values[$0]! << 4 | values[$0 + 1]!)
    }
  }

  private static func hexadecimal(_ bytes: [UInt8]) -> String {
    String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }
}

// The bytes of a value in a custom storage; integers are little-endian.
//
//      0  magic      u8   0x4C
//      1  version    u8   1
//      2  codec      u16  as in a store's entry
//      4  expires    i64  milliseconds since 1970; the largest number means never
//     12  checksum   u64  FNV-1a over the key's text, the 12 bytes above, and the payload
//     20  payload

/// The encoded value of a key in a custom storage.
struct CustomStorageEntry {
  var codec: UInt16
  var expires: Int64
  var payload: [UInt8]

  private static let headerSize = 20

  func data(forKey text: String) -> Data {
    var result = Data(capacity: Self.headerSize + payload.count)
    result.append(contentsOf: [0x4C, 1, UInt8(truncatingIfNeeded: codec), UInt8(codec >> 8)])
    Self.append(UInt64(bitPattern: expires), to: &result)
    Self.append(Self.checksum(text, Array(result), payload[...]), to: &result)
    result.append(contentsOf: payload)
    return result
  }

  /// Decodes an entry. Fails if the bytes were not written for this key, or are damaged.
  init?(_ data: Data, forKey text: String) {
    let bytes = Array(data)
    guard bytes.count >= Self.headerSize, bytes[0] == 0x4C, bytes[1] == 1 else { return nil }
    codec = UInt16(bytes[2]) | UInt16(bytes[3]) << 8
    expires = Int64(bitPattern: Self.word(bytes[4..<12]))
    payload = Array(bytes[Self.headerSize...])
    guard
      Self.word(bytes[12..<20])
        == Self.checksum(text, Array(bytes[..<12]), bytes[Self.headerSize...])
    else { return nil }
  }

  init(codec: UInt16, expires: Int64, payload: [UInt8]) {
    self.codec = codec
    self.expires = expires
    self.payload = payload
  }

  private static func append(_ word: UInt64, to data: inout Data) {
    data.append(contentsOf: (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * UInt64($0))) })
  }

  private static func word(_ bytes: ArraySlice<UInt8>) -> UInt64 {
    bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  private static func checksum(
    _ text: String, _ header: [UInt8], _ payload: ArraySlice<UInt8>
  ) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    func add(_ bytes: some Sequence<UInt8>) {
      for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    }
    add(text.utf8)
    add(header)
    add(payload)
    return hash
  }
}
