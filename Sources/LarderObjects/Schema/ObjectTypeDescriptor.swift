// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCache
public import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem
internal import Synchronization

/// The descriptor of a stored type in this process: its catalog record, and its decoded objects.
@usableFromInline
final class ObjectTypeDescriptor<Object: Storable>: Sendable {
  /// The catalog's record as this process last read it.
  struct State: Sendable {
    let record: ObjectTypeRecord
    /// The identifiers of the declared indexes, in their order.
    let indexes: [UInt32]
    let generation: UInt64
    /// The commit version of the snapshot that contained the record.
    let commitVersion: UInt64
  }

  let core: StoreCore
  let name: String
  let declared: [Index<Object>]
  let scannable: ScannableIndexes
  @usableFromInline let tier: MemoryTier<String, DecodedObject>
  /// Whether a decoded object may be returned to several callers.
  let sharesInstances: Bool
  /// The positions in `tier` of objects by sequence number.
  private let spots = ObjectPositionCache()
  private let known = Mutex<State?>(nil)
  /// The record, if nothing is left to do before objects are saved.
  private let prepared = CatalogCache<ObjectTypeRecord>()
  weak let store: ObjectStore?
  /// The build of the type's indexes in this process.
  let build = IndexBuild()
  private let refers: Atomic<Bool>
  /// The decoder that is used until the first reference is decoded.
  private let firstDecoder: ReferenceDecoder
  let schema = Mutex(ObservedSchema())
  /// The erasures and saves of this process; see `SchemaErasure.swift`.
  let erasure = Mutex(ErasureState())
  /// Whether the declared budget is stored.
  let hasBudget = Atomic<Bool>(false)
  /// The fields that queries read in place; see ``DeclaresSchema``.
  let fields: [AnyPath: DeclaredField]
  /// Whether code may run when a property is set.
  let hasObservers: Bool
  /// Whether the name is the default one of a private or local type; see `PrivateTypes.swift`.
  let isPrivatelyNamed: Bool
  /// The layout of the declared fields; see ``DeclaresSchema``.
  let layout: ObjectLayout?
  /// The states of objects that callers got; see `ReadStates.swift`.
  let reads = ReadStates()
  /// Whether no field of the type was found that is no scalar.
  let writesFields = Atomic<Bool>(true)

  /// A decoded object with the loader of its references, if it has any.
  @usableFromInline
  // @unchecked Sendable: immutable.
  final class Decoded: DecodedObject, @unchecked Sendable {
    @usableFromInline let object: Object

    @inlinable
    init(object: Object, context: ReferenceLoader?, type: UInt32 = 0, sequence: UInt64 = 0) {
      self.object = object
      super.init(context, type: type, sequence: sequence)
    }

    @usableFromInline
    override func placed(type: UInt32, sequence: UInt64) -> DecodedObject {
      Decoded(object: object, context: context, type: type, sequence: sequence)
    }
  }

  /// - Parameter isUsable: `false` in a forked child, where each operation throws. No code of the type runs: a thread
  ///   of the parent may have been inside its initialisation, or inside a lock of the runtime that names of types and
  ///   key paths need.
  init(store: ObjectStore, options: CacheOptions, isUsable: Bool = true) {
    self.store = store
    core = store.storage.core
    firstDecoder = ReferenceDecoder(ReferenceLoader(store: store))
    tier = MemoryTier(core: core, options: options, recordsExactUses: true)
    guard isUsable else {
      refers = Atomic(false)
      (name, sharesInstances, hasObservers) = ("", false, true)
      (declared, fields, layout, scannable) = ([], [:], nil, ScannableIndexes([]))
      isPrivatelyNamed = false
      return
    }
    (name, isPrivatelyNamed) = DefaultTypeName.resolve { Object.storedName }
    sharesInstances = !(Object.self is AnyObject.Type) || Object.sharesInstances
    refers = Atomic(!Object.relationships.isEmpty)
    declared = Object.allIndexes
    fields = Object.declaredFields
    layout = Object.declaredLayout
    hasObservers = Object.hasObservers
    scannable = ScannableIndexes(declared.map(\.shape) + [Index<Object>.references])
    core.watchFiles()
  }

  /// The objects in memory, for a query of one snapshot.
  func memory(_ type: UInt32, _ view: SnapshotView) -> ObjectMemory {
    ObjectMemory(tier, spots, type: type, view)
  }

  /// The object of a cached value, if it may be returned.
  @inlinable @inline(__always)
  func object(in found: DecodedObject?) -> Object? {
    guard let found, found.isFresh else { return nil }
    return (found as? Decoded)?.object
  }

  /// Returns the object of a decoded object of this type.
  @inlinable @inline(__always)
  static func object(of decoded: DecodedObject) -> Object { (decoded as! Decoded).object }

  /// Returns the bytes under which an id is stored.
  static func bytes(of id: Object.ID) -> [UInt8] { Array(text(of: id).utf8) }

  /// Returns the string under which an id is stored: equal for equal ids, different for all others.
  @usableFromInline static func text(of id: Object.ID) -> String {
    if let text = id as? String { return composed(text) }
    return composed(KeyTextFormat.display(tag: Object.ID.keyTag, bytes: id.keyBytes))
  }

  /// Returns a string that equals ``text(of:)``, for look-ups in memory.
  @inlinable @inline(__always)
  static func lookUpText(of id: Object.ID) -> String {
    if let text = id as? String { return text }
    if let number = id as? Int { return String(number) }
    return text(of: id)
  }

  // MARK: Catalog

  /// Returns the type's state in a snapshot, or `nil` if no object of the type was ever stored.
  func state(
    _ snapshot: borrowing Snapshot
  ) throws -> State? {
    // State from a newer snapshot does not apply to this one.
    if let state = known.withLock({ $0 }), state.generation == snapshot.generation.incarnation,
      state.commitVersion <= snapshot.commitVersion,
      snapshot.view.isCurrent(.catalog(in: snapshot.generation), since: state.commitVersion)
    {
      return state
    }
    guard let record = try readable(ObjectReading.type(named: name, snapshot)) else { return nil }
    try requireDecodable(record, snapshot)
    return learn(record, snapshot.generation.incarnation, commitVersion: snapshot.commitVersion)
  }

  /// The store, for a build in the background.
  var buildStore: ObjectStore? { store }

  private func learn(
    _ record: ObjectTypeRecord, _ generation: UInt64, commitVersion: UInt64
  ) -> State {
    buildIfNeeded(record)
    let state = State(
      record: record,
      indexes: declared.map { index in
        record.indexes.first { index.isStored(as: $0) }?.number ?? 0
      }, generation: generation, commitVersion: commitVersion)
    known.withLock { old in
      if old == nil || old!.generation != generation || old!.commitVersion <= commitVersion {
        old = state
      }
    }
    return state
  }

  /// Whether objects of the type are known to have references.
  var hasReferences: Bool { refers.load(ordering: .relaxed) }
  func markReferences() { refers.store(true, ordering: .relaxed) }

  /// Returns a decoder for one fetch.
  func newDecoder() -> ReferenceDecoder {
    hasReferences ? ReferenceDecoder(ReferenceLoader(store: store)) : firstDecoder
  }

  /// Verifies the declaration itself.
  ///
  /// - Throws: ``ObjectError/Code/invalidSchema`` if it is inconsistent.
  func validate() throws {
    try requireOwnName()
    for index in declared
    where index.name == ReferenceIndex.name || index.name == UnindexedNotes.name {
      throw ObjectError(
        .invalidSchema, type: name,
        "The index name \"\(index.name)\" is reserved. Choose another.",
        index: index.name)
    }
    for index in declared {
      guard let problem = index.problem else { continue }
      throw ObjectError(
        .invalidSchema, type: name, "The index \"\(index.name)\" is invalid. \(problem)",
        index: index.name)
    }
    for rule in Object.relationships where rule.isImpossible {
      throw ObjectError(
        .invalidSchema, type: name,
        "A Relationship declares nullify for a nonoptional reference to \(rule.target). Make the "
          + "reference optional, or choose another rule.")
    }
    var names: Set<String> = []
    for index in declared where !names.insert(index.name).inserted {
      throw ObjectError(
        .invalidSchema, type: name,
        "The index \"\(index.name)\" is declared twice. Give each index a unique name.",
        index: index.name)
    }
    guard Object.schemaVersion >= 1, Object.schemaVersion < 1 << 31 else {
      throw ObjectError(
        .invalidSchema, type: name,
        "schemaVersion is \(Object.schemaVersion); the range is 1 to 2,147,483,647. Declare a "
          + "version in the range.")
    }
  }

  /// Returns the type's record for writing, and updates it if the declaration changed.
  func prepare(_ transaction: inout StoreTransaction) throws -> ObjectTypeRecord {
    let isDeclaring = build.declarations.load(ordering: .relaxed) > 0
    if !isDeclaring, let known = transaction.objects.type(named: name),
      known.declarer == ObjectIdentifier(self), known.record.version == version
    {
      return known.record
    }
    let state = transaction.objects
    if !isDeclaring, state.typeChanges == 0, let record = prepared.value(in: transaction.generation)
    {
      state.keep(record, declarer: ObjectIdentifier(self))
      return record
    }
    var record = try preparedAnew(&transaction)
    try addLayout(to: &record, &transaction)
    state.keep(record, declarer: ObjectIdentifier(self))
    // A build must be started, and a budget stored, in a transaction that is committed.
    if state.typeChanges == 0, !isUnbuilt(record),
      Object.budget == nil || hasBudget.load(ordering: .relaxed)
    {
      prepared.remember(record, before: transaction.commitVersion, in: transaction.generation)
    }
    return record
  }

  /// Adds the layout of the declared fields to the type's record if it is not there.
  private func addLayout(
    to record: inout ObjectTypeRecord, _ transaction: inout StoreTransaction
  ) throws {
    guard let layout else { return }
    var layouts = record.layouts ?? ObjectLayouts()
    guard layouts.add(layout) else { return }
    record.layouts = layouts
    try transaction.putObjectType(record)
  }

  private func preparedAnew(
    _ transaction: inout StoreTransaction
  ) throws -> ObjectTypeRecord {
    guard var record = try transaction.objectType(named: name) else {
      try validate()
      var record = try declare(&transaction)
      try declareBudget(&record, &transaction)
      return record
    }
    try requireWritable(record)
    try declareBudget(&record, &transaction)
    let isOlder = record.version < version
    // What a type without a declared schema reads from an object may have changed with its version.
    let isKnown = !isOlder || layout != nil
    var missing = declared.filter { index in
      !isKnown || !record.indexes.contains { index.isStored(as: $0) }
    }
    // A migration without Swift types leaves the indexes of the older program.
    let mayReplace = isOlder || record.indexedIn.map { $0 < version } ?? false
    let undeclared = record.indexes.first { stored in
      stored.isUnique && !stored.isInternal && !declared.contains { $0.name == stored.name }
    }
    if let first = undeclared, !mayReplace {
      throw ObjectError(
        .schemaMismatch, type: name,
        "The stored type has a unique index \"\(first.name)\" that this program does not declare, "
          + "so it cannot check the keys of what it saves. Declare the index, or raise "
          + "schemaVersion to drop it.", index: first.name)
    }
    var isEmpty = false
    if mayReplace || !missing.isEmpty {
      isEmpty = try transaction.objectBooks(record.number).count == 0
    }
    var kept: Set<String> = []
    if !mayReplace, !isEmpty, !missing.isEmpty {
      kept = try replacedIndexes(missing, record)
      missing.removeAll { kept.contains($0.name) }
    }
    if mayReplace || !missing.isEmpty {
      try validate()
      if !mayReplace, !isEmpty {
        try requireAgreement(of: missing, with: record)
        try requireSameFields(record, adding: missing, transaction)
      }
      record.indexedIn = nil
      if isOlder { try raise(&record, isEmpty: isEmpty, &transaction) }
      let changes = IndexChanges(
        missing: missing, kept: kept, isKnown: isKnown, mayReplace: mayReplace, isEmpty: isEmpty)
      try apply(changes, to: &record, &transaction)
      try transaction.putObjectType(record)
    }
    if noteDefaults(in: &record) { try transaction.putObjectType(record) }
    buildIfNeeded(record)
    return record
  }

  /// Adds the defaults of new fields to the stored indexes that read them.
  ///
  /// - Returns: Whether there were any.
  private func noteDefaults(in record: inout ObjectTypeRecord) -> Bool {
    var isChanged = false
    for index in declared where !index.shape.defaults.texts.isEmpty {
      guard let position = record.indexes.firstIndex(where: { index.isStored(as: $0) }) else {
        continue
      }
      let known = record.indexes[position].defaults ?? [:]
      let all = known.merging(index.shape.defaults.texts) { known, _ in known }
      if all == known { continue }
      record.indexes[position].defaults = all
      isChanged = true
    }
    return isChanged
  }

  /// Verifies that stored and declared indexes agree on uniqueness. Otherwise two programs of one
  /// version would rebuild the index alternately.
  private func requireAgreement(
    of indexes: [Index<Object>], with record: ObjectTypeRecord
  ) throws {
    for index in indexes {
      guard let stored = record.indexes.first(where: { $0.name == index.name }),
        stored.isUnique != index.isUnique, stored.definition == index.definition,
        stored.fields == index.fields
      else { continue }
      throw ObjectError(
        .schemaMismatch, type: name,
        "The stored index \"\(index.name)\" is \(stored.isUnique ? "unique" : "not unique"), and "
          + "this program declares the opposite in the same version \(record.version). Declare "
          + "unique: \(stored.isUnique), or raise schemaVersion in the program that changes it.",
        index: index.name)
    }
  }

  private func declare(_ transaction: inout StoreTransaction) throws -> ObjectTypeRecord {
    var record = ObjectTypeRecord(
      number: try transaction.newObjectNumber(), name: name, version: version, fingerprint: 0,
      indexes: [], migrations: [])
    record.born = record.version
    record.minimumReaderVersion = Self.minimumReaderVersion
    for index in declared {
      record.indexes.append(try stored(index, builtTo: nil, &transaction))
    }
    try transaction.putObjectType(record)
    return record
  }

  func stored(
    _ index: Index<Object>, builtTo: UInt64?, _ transaction: inout StoreTransaction
  ) throws -> ObjectTypeRecord.Index {
    var stored = ObjectTypeRecord.Index(
      number: 0, name: index.name, fields: index.fields, isUnique: index.isUnique,
      definition: index.definition, defaults: index.shape.defaults.texts, builtTo: builtTo)
    stored.declaration = index.declaration
    stored.number = try transaction.newNumber(for: stored)
    return stored
  }
}
