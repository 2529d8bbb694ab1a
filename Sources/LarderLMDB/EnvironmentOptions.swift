// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The options with which a process opens an environment.
///
/// ```swift
/// let options = EnvironmentOptions(mapSize: 16 << 30, durability: .onDemand)
/// let environment = try Environment(at: "/var/tmp/app/index", options)
/// ```
public struct EnvironmentOptions: Sendable, Hashable {
  /// The storage state that a commit has reached when it returns.
  ///
  /// All processes that have the environment open at the same time use one durability, chosen by
  /// the first of them. Killing a process never loses a commit, whatever the durability.
  public enum Durability: Sendable, Hashable {
    /// Each commit waits for the disk: neither a system crash nor a loss of power loses it.
    case everyCommit
    /// Commits do not wait for the disk and are several times as fast.
    /// ``Environment/synchronize()`` waits for the disk.
    ///
    /// A system crash may lose commits and may damage the file. The next open verifies the complete
    /// file and throws ``LMDBError/Code/damaged`` if it is damaged.
    case onDemand
  }

  /// The condition under which an open verifies the complete file before LMDB maps it.
  public enum Verification: Sendable, Hashable {
    /// Verifies a file that was copied from elsewhere, that was open with
    /// ``Durability-swift.enum/onDemand`` when the system crashed, or that two processes were
    /// opening when they were killed.
    case whenDoubtful
    /// Verifies the file whenever the first process opens it. Reads each page of its trees.
    case always
  }

  /// The bytes of address space for the file, which is its maximum size.
  ///
  /// The map reserves address space only; memory and disk are used by the stored data. All
  /// processes use one size: the first to open chooses it, and a process that opens the environment
  /// alone can make it larger, never smaller. `nil` keeps the existing size, or selects 64 GiB for
  /// a new environment. The range is 1 MiB to 64 TiB.
  public var mapSize: Int?
  /// The maximum number of open tables, 1 to 32,768.
  public var maximumTables: Int
  /// The maximum number of concurrent reads, in all processes together, 2 to 65,536. The first
  /// process to open the environment chooses it.
  public var maximumReaders: Int
  /// The storage state that a commit has reached when it returns.
  public var durability: Durability
  /// The condition under which an open verifies the complete file.
  public var verification: Verification
  /// The time that opening and closing wait for another process that opens or closes the
  /// environment; after it they throw ``LMDBError/Code/openTimeout``.
  public var openTimeout: Duration
  /// The time that a write waits for other writers, of all processes, and that closing waits for
  /// the transactions of this process; after it they throw ``LMDBError/Code/writerStalled``.
  public var writeTimeout: Duration
  /// Whether to open the environment on macOS, where a killed writer blocks all others permanently.
  public var allowNonRobustLocks: Bool

  /// Creates options. Each default is safe; the property of the same name describes each parameter.
  public init(
    mapSize: Int? = nil, maximumTables: Int = 128, maximumReaders: Int = 1022,
    durability: Durability = .everyCommit, verification: Verification = .whenDoubtful,
    openTimeout: Duration = .seconds(10), writeTimeout: Duration = .seconds(30),
    allowNonRobustLocks: Bool = false
  ) {
    self.mapSize = mapSize
    self.maximumTables = maximumTables
    self.maximumReaders = maximumReaders
    self.durability = durability
    self.verification = verification
    self.openTimeout = openTimeout
    self.writeTimeout = writeTimeout
    self.allowNonRobustLocks = allowNonRobustLocks
  }

  static let newMapSize = 64 << 30
  /// The range of `maximumTables`. LMDB's cursors need about 100 bytes per table in each
  /// transaction; the upper limit is far beyond normal use.
  static let tableLimits = 1...32_768
  static let readerLimits = 2...65_536
  static let mapLimits = (1 << 20)...Int(LMDBFormat.maximumMapBytes)

  func check(_ path: String) throws(LMDBError) {
    func require(_ fits: Bool, _ what: String) throws(LMDBError) {
      if !fits { throw LMDBError(.invalidOption, during: "open \(path): \(what)") }
    }
    if let mapSize {
      try require(
        EnvironmentOptions.mapLimits.contains(mapSize),
        "mapSize is \(mapSize) bytes; the range is 1 MiB to 64 TiB")
    }
    try require(
      EnvironmentOptions.tableLimits.contains(maximumTables),
      "maximumTables is \(maximumTables); the range is 1 to 32,768")
    try require(
      EnvironmentOptions.readerLimits.contains(maximumReaders),
      "maximumReaders is \(maximumReaders); the range is 2 to 65,536")
    try require(openTimeout >= .zero, "openTimeout is negative; the minimum is zero")
    try require(writeTimeout >= .zero, "writeTimeout is negative; the minimum is zero")
    #if canImport(Darwin)
    guard allowNonRobustLocks else {
      throw LMDBError(.nonRobustLocks, during: "open \(path)")
    }
    #endif
  }
}
