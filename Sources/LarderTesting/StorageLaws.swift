// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The laws of storages of values by key, as a check of a custom storage.
///
/// Closures over string keys and bytes describe the storage, and convert its keys and values:
///
/// ```swift
/// let laws = StorageLaws(
///   get: { try await storage.data(for: $0).map(Array.init) },
///   set: { try await storage.store(Data($1), for: $0) },
///   remove: { try await storage.delete($0) },
///   removeAll: { try await storage.clear() })
/// #expect(await laws.violations() == [])
/// ```
///
/// Violations are values, so the check works under every test framework. Each names the law, the
/// observed behaviour, and the seed that repeats it. Pass a storage without other contents: the check
/// removes all values repeatedly. It must have room for some megabytes; a storage that evicts or
/// expires values earlier violates the laws.
public struct StorageLaws: Sendable {
  /// Reads the bytes of a key, or `nil` if it has none.
  public var get: @Sendable (_ key: String) async throws -> [UInt8]?
  /// Stores bytes. After it returns, reads return them.
  public var set: @Sendable (_ key: String, _ value: [UInt8]) async throws -> Void
  /// Removes a key. It has no effect if the key does not exist.
  public var remove: @Sendable (_ key: String) async throws -> Void
  /// Removes every key.
  public var removeAll: @Sendable () async throws -> Void
  /// Lists all keys in any order, or `nil` if the storage cannot list them.
  public var keys: (@Sendable () async throws -> [String])?
  /// Returns whether a key has a value, or `nil` if the storage has no such operation.
  public var contains: (@Sendable (_ key: String) async throws -> Bool)?

  /// Changes the bytes of a key atomically, or `nil` if the storage has no such operation. In the
  /// closure, `nil` is the absence of a value.
  public var update:
    (
      @Sendable (
        _ key: String, _ change: @escaping @Sendable (inout [UInt8]?) throws -> Void
      ) async throws -> Void
    )?

  /// Keys that storages confuse. Remove keys that the storage rejects by design; add keys that it may
  /// confuse.
  public var hostileKeys = StorageLaws.defaultHostileKeys
  /// The size of the largest value in bytes; 1 MiB by default. Smaller ones are always tested.
  public var largestValue = 1 << 20
  /// The number of operations of the random sequence, and of each thread in the concurrent laws.
  public var operations = 400

  /// Creates the laws of a storage. The closures may be synchronous or asynchronous.
  public init(
    get: @escaping @Sendable (_ key: String) async throws -> [UInt8]?,
    set: @escaping @Sendable (_ key: String, _ value: [UInt8]) async throws -> Void,
    remove: @escaping @Sendable (_ key: String) async throws -> Void,
    removeAll: @escaping @Sendable () async throws -> Void,
    keys: (@Sendable () async throws -> [String])? = nil,
    contains: (@Sendable (_ key: String) async throws -> Bool)? = nil
  ) {
    self.get = get
    self.set = set
    self.remove = remove
    self.removeAll = removeAll
    self.keys = keys
    self.contains = contains
  }

  /// A violation of a law.
  public struct Violation: Sendable, Hashable, CustomStringConvertible {
    /// The law.
    public let law: Law
    /// The operations and the observed behaviour, in a sentence or two.
    public let message: String
    /// The seed that repeats the violation, as `LARDER_SEED` or as an argument.
    public let seed: Seed

    /// The violation in one line.
    public var description: String { "\(law): \(message) (\(seed))" }
  }

  /// Checks the storage and returns the violations, at most one of each law.
  ///
  /// The concurrent laws run on four additional threads; only the closures themselves may wait on a
  /// thread of Swift's cooperative pool.
  ///
  /// - Parameters:
  ///   - laws: The laws to check, in this order; all by default.
  ///   - seed: The seed of the random keys and values, or `nil` for a new one, which is printed to
  ///     standard error.
  public func violations(
    of laws: [Law] = Law.allCases, seed: Seed? = nil
  ) async -> [Violation] {
    await withCheckedContinuation { continuation in
      // It is not joined: it ends after it has resumed the caller.
      _ = JoinableThread { continuation.resume(returning: check(laws, seed: seed)) }
    }
  }

  /// Checks the storage and blocks the calling thread, for synchronous tests.
  ///
  /// The closures must not need the calling thread, for example the main actor on the main thread.
  public func waitForViolations(of laws: [Law] = Law.allCases, seed: Seed? = nil) -> [Violation] {
    check(laws, seed: seed)
  }

  private func check(_ laws: [Law], seed: Seed?) -> [Violation] {
    let seed = seed ?? Seed.announce("StorageLaws")
    return CallingThreadExecutor.run {
      var violations: [Violation] = []
      for law in laws {
        var check = StorageLawCheck(storage: self, random: seed.generator(stream: law.stream))
        do {
          try await check.run(law)
        } catch let broken as StorageLawCheck.LawFailure {
          violations.append(Violation(law: law, message: broken.message, seed: seed))
        } catch {
          violations.append(Violation(law: law, message: "It threw: \(error)", seed: seed))
        }
      }
      return violations
    }
  }
}

extension StorageLaws {
  /// A law. The check of each law is independent and starts with an empty storage.
  public enum Law: String, Sendable, Hashable, CaseIterable, CustomStringConvertible {
    /// A stored value is read, and a key that was never set has none.
    case whatIsSetIsRead
    /// A read returns the last of several values of a key.
    case theLastSetWins
    /// A removal removes one key only, which can be set again.
    case removingRemoves
    /// After `removeAll` the storage is empty and still works.
    case removeAllRemovesAll
    /// `keys` lists the existing keys, each once. Needs ``StorageLaws/keys``.
    case keysAreExact
    /// `contains` agrees with reads. Needs ``StorageLaws/contains``.
    case containsAgreesWithGet
    /// Different keys have different values, even if the keys are similar.
    case distinctKeysNeverMeet
    /// Keys with different bytes are two keys, even if Swift's `==` treats them as equal (Unicode
    /// normalisation). A storage over a Swift dictionary of `String` violates this law.
    case canonicallyEqualKeysAreTwo
    /// Values of all sizes, from empty to 1 MB, are read unchanged.
    case valuesOfAnySizeComeBack
    /// A random sequence of operations has the same effect as on a dictionary.
    case randomOperationsFollowADictionary
    /// Concurrent writes of different keys all take effect.
    case concurrentWritersLoseNothing
    /// During concurrent writes, a reader sees only complete values of its key, and never an older one
    /// after a newer one.
    case concurrentReadersSeeWholeValues

    /// Concurrent updates of one key all take effect. Needs ``StorageLaws/update``.
    case concurrentUpdatesLoseNothing

    /// The law's name, as words.
    public var description: String {
      rawValue.reduce(into: "") { text, character in
        text += character.isUppercase ? " \(character.lowercased())" : "\(character)"
      }
    }

    /// Each law has the same random numbers, independent of the other checked laws.
    fileprivate var stream: UInt64 { UInt64(Law.allCases.firstIndex(of: self)!) }
  }

  /// Keys that storages are known to confuse: with file names, with the ends of C strings, with
  /// each other's case or prefix.
  public static let defaultHostileKeys: [String] =
    [
      "", " ", "a", "A", "a ", " a", "aa", "a/b", "a/b/", "/a/b", "a:b", "a\\b", "a.b", "a_b",
      "a-b", "/", ".", "..", "../a", "~", "*", "?", "a\0", "a\0b", "\0", "%00", "a%2Fb", "a+b",
      "a\n", "a\r\n", "\t", "'a'", "\"a\"", "0", "00", "-0", "1", "1.0", "nil", "null", "true",
      "ß", "ss", "SS", "ﬁ", "fi", "İ", "i", "ı", "🧂", "\u{FEFF}a", "a\u{200B}",
    ]
    + [254, 255, 256, 512, 5000].flatMap { length in
      [String(repeating: "x", count: length), String(repeating: "x", count: length - 1) + "y"]
    }
}
