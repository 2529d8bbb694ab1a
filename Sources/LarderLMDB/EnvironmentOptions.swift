// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// How an environment is opened.
///
/// ```swift
/// let options = EnvironmentOptions(mapSize: 16 << 30, durability: .onDemand)
/// let environment = try Environment(at: "/var/tmp/app/index", options)
/// ```
public struct EnvironmentOptions: Sendable, Hashable {
  /// What a commit has waited for when it returns.
  ///
  /// It is one for all processes that have the environment open at the same time; the first of them
  /// chooses. No commit is ever lost by a process being killed, whichever it is.
  public enum Durability: Sendable, Hashable {
    /// For the disk: nothing committed is lost by a crash of the system or a loss of power.
    case everyCommit
    /// For nothing: several times as fast. ``Environment/synchronize()`` waits for the disk.
    ///
    /// A crash of the system may lose commits and may damage the file. The next opening verifies
    /// the whole file then, and refuses it if it is damaged.
    case onDemand
  }

  /// When the whole file is verified before LMDB is let near it.
  public enum Verification: Sendable, Hashable {
    /// When there is a reason: the file comes from elsewhere, the system went down while it was
    /// written with ``Durability-swift.enum/onDemand``, or two processes died opening it.
    case whenDoubtful
    /// With every opening by a process that is the only one. Reads each page of its trees.
    case always
  }

  /// Bytes of address space for the file: it can never grow beyond.
  ///
  /// Only address space; memory and disk are taken by what is stored. It is one for all processes:
  /// the first to open decides, and it can be made larger (never smaller) by a process that opens
  /// the environment alone. `nil`: as it is, and 64 GiB for a new environment.
  public var mapSize: Int?
  /// How many tables can be open.
  public var maximumTables: Int
  /// How many reads can go on at the same moment, in all processes together. The first to open decides.
  public var maximumReaders: Int
  /// What a commit has waited for when it returns.
  public var durability: Durability
  /// When the whole file is verified before LMDB is let near it.
  public var verification: Verification
  /// How long opening and closing wait for another process that is in either.
  public var openTimeout: Duration
  /// How long a write waits for earlier ones, of all processes, and closing for the transactions of
  /// this process; then they end with ``LMDBError/Code/writerStalled``.
  public var writeTimeout: Duration
  /// macOS only: opens although a killed writer would block all others there for good.
  public var allowNonRobustLocks: Bool

  /// Makes options; each has a default that is safe.
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
  /// Of LMDB's own cursors, a table costs some 100 bytes in each transaction: a limit far beyond use.
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
        "mapSize is \(mapSize); it is from 1 MiB to 64 TiB")
    }
    try require(
      EnvironmentOptions.tableLimits.contains(maximumTables),
      "maximumTables is \(maximumTables); it is from 1 to 32,768")
    try require(
      EnvironmentOptions.readerLimits.contains(maximumReaders),
      "maximumReaders is \(maximumReaders); it is from 2 to 65,536")
    try require(openTimeout >= .zero, "openTimeout is negative")
    try require(writeTimeout >= .zero, "writeTimeout is negative")
    #if canImport(Darwin)
      guard allowNonRobustLocks else {
        throw LMDBError(.nonRobustLocks, during: "open \(path)")
      }
    #endif
  }
}
