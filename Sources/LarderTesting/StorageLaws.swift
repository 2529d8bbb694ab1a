// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// What must hold for anything that stores values by key, as a check of one's own storage.
///
/// A storage is described by closures over text keys and bytes; whatever it stores in truth, the
/// closures convert:
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
/// Violations are values, so that it works under every test framework. Each says which law was
/// broken, how, and the seed that breaks it again. Give the laws a storage of its own: everything
/// in it is removed, again and again. It must have room for some megabytes; what evicts or expires
/// earlier breaks the laws.
public struct StorageLaws: Sendable {
  /// The bytes of a key, or `nil` when there are none.
  public var get: @Sendable (_ key: String) async throws -> [UInt8]?
  /// Stores bytes. When it returns, reading gives them.
  public var set: @Sendable (_ key: String, _ value: [UInt8]) async throws -> Void
  /// Removes a key; without effect when there is none.
  public var remove: @Sendable (_ key: String) async throws -> Void
  /// Removes every key.
  public var removeAll: @Sendable () async throws -> Void
  /// All keys, in any order; `nil` if the storage cannot tell.
  public var keys: (@Sendable () async throws -> [String])?
  /// Whether there is a value for a key; `nil` if the storage cannot tell otherwise than by
  /// reading.
  public var contains: (@Sendable (_ key: String) async throws -> Bool)?

  /// Changes the bytes of a key such that nothing comes in between; `nil` if the storage cannot.
  /// `nil` is no value, before and after.
  public var update:
    (
      @Sendable (
        _ key: String, _ change: @escaping @Sendable (inout [UInt8]?) throws -> Void
      ) async throws -> Void
    )?

  /// Keys that storages confuse. Remove what a storage refuses by design; add what it may confuse.
  public var hostileKeys = StorageLaws.defaultHostileKeys
  /// The size of the largest value, 1 MiB unless set. Smaller ones are tried in any case.
  public var largestValue = 1 << 20
  /// The length of the random sequence, and of what each thread does in the concurrent laws.
  public var operations = 400

  /// Describes a storage. Closures that do not wait serve as well as those that do.
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

  /// A law that does not hold for a storage.
  public struct Violation: Sendable, Hashable, CustomStringConvertible {
    /// The law.
    public let law: Law
    /// What was done and what came of it, in a sentence or two.
    public let message: String
    /// The seed that repeats it, as `LARDER_SEED` or as an argument.
    public let seed: Seed

    /// All of it, in one line.
    public var description: String { "\(law): \(message) (\(seed))" }
  }

  /// Checks the storage, and returns how it breaks the laws: at most one violation of each.
  ///
  /// The concurrent laws run on four threads of their own; nothing waits on a thread of Swift's
  /// pool but what the closures themselves do there.
  ///
  /// - Parameters:
  ///   - laws: Those that are to hold, in their order; all of them unless given.
  ///   - seed: Where the random keys and values start; announced on standard error if not given.
  public func violations(
    of laws: [Law] = Law.allCases, seed: Seed? = nil
  ) async -> [Violation] {
    await withCheckedContinuation { continuation in
      // Nobody joins it: it ends by itself when it has resumed the caller.
      _ = JoinableThread { continuation.resume(returning: check(laws, seed: seed)) }
    }
  }

  /// Checks the storage on the calling thread, which waits, for tests that are not asynchronous.
  ///
  /// For closures that must not need this thread: nothing of the main actor, when this is the main
  /// thread.
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
  /// A law. Each stands by itself and begins with an empty storage.
  public enum Law: String, Sendable, Hashable, CaseIterable, CustomStringConvertible {
    /// What is set is read, and what is not set is not there.
    case whatIsSetIsRead
    /// Of several values of a key the last one is read.
    case theLastSetWins
    /// A removed key is gone, no other is, and it can be set again.
    case removingRemoves
    /// After `removeAll` there is nothing, and the storage works on.
    case removeAllRemovesAll
    /// `keys` gives the keys that are there, each once. Needs ``StorageLaws/keys``.
    case keysAreExact
    /// `contains` says what reading says. Needs ``StorageLaws/contains``.
    case containsAgreesWithGet
    /// Different keys have different values, however similar they are.
    case distinctKeysNeverMeet
    /// Keys that differ in their bytes are two keys, also where Swift's `==` calls them equal: in
    /// Unicode normalisation. A storage over a Swift dictionary of `String` cannot keep it.
    case canonicallyEqualKeysAreTwo
    /// Values of all sizes come back as they were, from none to 1 MB.
    case valuesOfAnySizeComeBack
    /// A random sequence of operations does what it does to a dictionary.
    case randomOperationsFollowADictionary
    /// Threads that write different keys at the same time lose nothing of each other.
    case concurrentWritersLoseNothing
    /// A reader sees whole values of its key only, and never an older one after a newer one, while
    /// others write.
    case concurrentReadersSeeWholeValues

    /// Threads that change one key at the same time, each what it found, lose no change. Needs
    /// ``StorageLaws/update``.
    case concurrentUpdatesLoseNothing

    /// The law's name, as words.
    public var description: String {
      rawValue.reduce(into: "") { text, character in
        text += character.isUppercase ? " \(character.lowercased())" : "\(character)"
      }
    }

    /// Whatever laws are checked, each has the same random numbers.
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
