// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Larder
import LarderEngine
import LarderLMDB
import LarderSystem
import LarderTesting

/// One of the valid stores of which damaged copies are made.
struct DamageTemplate: Sendable {
  let number: Int
  let durability: Durability
  /// Whether its last user was killed with the store open.
  let isKilled: Bool
  /// Few bits make several keys share a record.
  let hashBits: Int
  let generation: UInt64

  static let all = [
    DamageTemplate(0, .cache), DamageTemplate(1, .cache, isKilled: true),
    DamageTemplate(2, .durable), DamageTemplate(3, .durable, isKilled: true),
    DamageTemplate(4, .cache, hashBits: 4, generation: 2),
    DamageTemplate(5, .durable, isKilled: true, hashBits: 4),
    DamageTemplate(6, .durable, hashBits: 60), DamageTemplate(7, .relaxed, isKilled: true),
  ]

  private init(
    _ number: Int, _ durability: Durability, isKilled: Bool = false, hashBits: Int = 64,
    generation: UInt64 = 1
  ) {
    self.number = number
    self.durability = durability
    self.isKilled = isKilled
    self.hashBits = hashBits
    self.generation = generation
  }

  /// The options under which builders and openers use it.
  func options(now: Int64, onEvent: (@Sendable (StoreEvent) -> Void)? = nil) -> StoreOptions {
    var options = StoreOptions(
      durability: durability, budget: durability == .cache ? .megabytes(8) : nil,
      clock: StoreClock { now }, openTimeout: .seconds(2), writeTimeout: .seconds(2),
      onEvent: onEvent)
    options.hashBits = hashBits
    return options
  }

  /// The root below a store's directory: where CURRENT, gate and leases are.
  var root: String { durability == .cache ? "/v1" : "" }

  // MARK: Building

  /// Builds the store in a directory, and copies its half-way state to `<path>.older`.
  ///
  /// With `isKilled` this process does not return. Secret and store id follow from the seed: the
  /// same seed gives the same pages.
  func build(at path: String, seed: UInt64) throws {
    let model = DamageModel(template: number, seed: seed)
    let options = options(now: DamageModel.buildTime)
    let empty = try SharedStore(at: path, options)
    for _ in 1..<generation {
      let old = try empty.core.generation()
      old.table.fence()
      try empty.core.switchGeneration(from: old)
    }
    empty.close()
    try settle(path, seed: seed)

    let store = try SharedStore(at: path, options)
    try perform(model.first, in: store)
    store.close()
    try DamageFiles(of: path).write(to: path + ".older")
    let again = try SharedStore(at: path, options)
    try perform(model.second, in: again)
    if isKilled { endProcess(ProcessIdentity.pid) }
    again.close()
  }

  /// Replaces the random contents of a new store by ones that follow from the seed.
  private func settle(_ path: String, seed: UInt64) throws {
    var random = Seed(seed).generator(stream: 2000 + UInt64(number))
    let generation = path + root + "/g-\(self.generation)"
    let environment = try EnvironmentHandle(
      path: generation, options: .init(mapSize: nil, synchronous: false))
    defer { environment.close() }
    var transaction = try WriteTransaction(in: environment)
    var found: StoreMeta?
    if let bytes = try transaction.value(forKey: StoreMeta.key, in: .main) {
      found = StoreMeta(bytes)
    }
    guard var meta = found else { throw DamageFailure("the template has no meta record") }
    meta.storeID = (random.next(), random.next())
    meta.secret = (random.next(), random.next())
    try transaction.put(meta.bytes(), forKey: StoreMeta.key, in: .main)
    try transaction.commit()
    // Both files contain the old identifier. The next opener creates the table again. Without
    // `state` it could not detect that the system has not restarted, and a cache would start empty.
    TestFiles.removeAll(generation + "/shared.table")
    let state = StoreState(
      isDirty: true, storeID: meta.storeID,
      pageCache: PageCacheIdentity(ofDescriptor: environment.dataDescriptor))
    try state.write(to: generation + "/state")
  }

  private func perform(_ steps: [DamageModel.Step], in store: SharedStore) throws {
    var rest = steps[...]
    while let step = rest.first {
      if case .clear(let namespace) = step {
        try store.removeAll(in: DamageKey.namespaces[namespace])
        rest.removeFirst()
        continue
      }
      // Transactions of several writes alternate with single writes.
      let batch = Array(rest.prefix(rest.count % 3 == 0 ? 7 : 1))
      rest.removeFirst(batch.count)
      let number = number
      try store.write { transaction in
        for step in batch {
          switch step {
          case .put(let key, let sequence, let expires):
            let delay = expires.map { Expiration.after(.milliseconds($0 - DamageModel.buildTime)) }
            try transaction.setBytes(
              DamageValue.bytes(template: number, key: key, sequence: sequence),
              forKey: key.number, in: DamageKey.namespaces[key.namespace],
              expires: delay ?? .never)
          case .remove(let key):
            try transaction.remove(forKey: key.number, in: DamageKey.namespaces[key.namespace])
          case .clear(let namespace):
            try transaction.removeAll(in: DamageKey.namespaces[namespace])
          }
        }
      }
    }
  }
}

/// The machinery failed, not the store.
struct DamageFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// The files of a store, in memory.
struct DamageFiles: Sendable {
  /// By their path below the store's directory.
  var contents: [String: [UInt8]] = [:]
  /// Directories below it, parents first.
  private(set) var directories: [String] = []

  init(of path: String) throws { try add(path, "") }

  private mutating func add(_ path: String, _ below: String) throws {
    for name in TestFiles.names(in: path + below) {
      let place = below + "/" + name
      if try FileSystem.status(of: path + place)?.isDirectory == true {
        directories.append(place)
        try add(path, place)
      } else {
        contents[place] = try TestFiles.contents(of: path + place)
      }
    }
  }

  /// Writes them all into a fresh directory.
  func write(to path: String) throws {
    TestFiles.removeAll(path)
    try TestFiles.makeDirectory(path)
    for directory in directories { try TestFiles.makeDirectory(path + directory) }
    for (place, bytes) in contents {
      try OwnedFile(path: path + place, creation: .createNew).write(bytes, at: 0)
    }
  }
}
#endif
