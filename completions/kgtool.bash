# bash completion for kgtool. Made by `make docs` from the command line itself: do not edit.
# Put it into ~/.local/share/bash-completion/completions, or source it in ~/.bashrc.

# Commands below a path of commands ("" is the program).
_kgtool_commands() {
    case "$1" in
        "") _kgtool_lines list lag describe doctor explain peek top reset-offsets delete-offsets delete cleanup keep retention remove-members configs undo recover backup restore diff export analyze context sandbox completion coordinator history request validate-regex exporter mcp man help version ;;
        "cleanup") _kgtool_lines apply plan ;;
        "retention") _kgtool_lines apply plan show ;;
        "context") _kgtool_lines add list remove rename show use ;;
        "sandbox") _kgtool_lines down seed status up ;;
    esac
}

# Options of a command.
_kgtool_options() {
    case "$1" in
        "") _kgtool_lines \
            -t --topic --exclude --match -g --group --type --state --expiring-within \
            --wait-empty --like --by-duration --to-datetime --shift-by --to-offset \
            --from-file --regex --validate-regex --all-or-nothing --create --to-current \
            --to-latest --to-earliest --export --execute --force -v --verbose --offsets \
            --members --all-topics -A --all-groups --reset-offsets --delete-offsets \
            --delete --describe --list --lagging --lag --by --time-lag --loses-within \
            --rates --over --expiry --read-committed --totals --columns --sort --limit \
            --no-headers -w --watch --prometheus -y --yes --confirm --reason \
            --journal-copy -n --dry-run --canary --max-groups -b --bootstrap-server \
            --command-config --context --timeout -o --output --no-color --debug --help \
            --version ;;
        "list") _kgtool_lines \
            --state --type -g --group --match --regex --exclude --expiring-within \
            --columns --sort --limit --no-headers -q --quiet -b --bootstrap-server \
            --command-config --context --timeout -o --output --no-color --debug --help ;;
        "lag") _kgtool_lines \
            -g --group -A --all-groups --match --regex --exclude --type --offsets \
            --members --topology --state -v --verbose -t --topic --lagging --lag --by \
            --time-lag --loses-within --rates --over --expiry --read-committed --totals \
            --columns --sort --limit --no-headers -w --watch --prometheus -b \
            --bootstrap-server --command-config --context --timeout -o --output \
            --no-color --debug --help ;;
        "describe") _kgtool_lines \
            -g --group -A --all-groups --match --regex --exclude --type --offsets \
            --members --topology --state -v --verbose -t --topic --lagging --lag --by \
            --time-lag --loses-within --rates --over --expiry --read-committed --totals \
            --columns --sort --limit --no-headers -w --watch --prometheus -b \
            --bootstrap-server --command-config --context --timeout -o --output \
            --no-color --debug --help ;;
        "doctor") _kgtool_lines \
            -g --group -A --all-groups --match --regex --exclude --state --type --within \
            --fail-on --ignore --findings -b --bootstrap-server --command-config \
            --context --timeout -o --output --no-color --debug --help ;;
        "explain") _kgtool_lines \
            -g --group --rules -b --bootstrap-server --command-config --context \
            --timeout -o --output --no-color --debug --help ;;
        "peek") _kgtool_lines \
            -g --group -t --topic --before --after --format --key-format --committed \
            --read-committed -b --bootstrap-server --command-config --context --timeout \
            -o --output --no-color --debug --help ;;
        "top") _kgtool_lines \
            --interval -b --bootstrap-server --command-config --context --timeout -o \
            --output --no-color --debug --help ;;
        "reset-offsets") _kgtool_lines \
            -g --group -A --all-groups --match --regex --exclude --state --type -t \
            --topic --all-topics --to --to-earliest --to-latest --to-current --to-offset \
            --shift-by --to-datetime --by-duration --from-file --like --execute --export \
            --create --wait-empty --all-or-nothing --force -v --verbose -y --yes \
            --confirm --reason --journal-copy -n --dry-run --canary --max-groups -b \
            --bootstrap-server --command-config --context --timeout -o --output \
            --no-color --debug --help ;;
        "delete-offsets") _kgtool_lines \
            -g --group -A --all-groups --match --regex --exclude --state --type -t \
            --topic --force --all-or-nothing -v --verbose -y --yes --confirm --reason \
            --journal-copy -n --dry-run --canary --max-groups -b --bootstrap-server \
            --command-config --context --timeout -o --output --no-color --debug --help ;;
        "delete") _kgtool_lines \
            -g --group -A --all-groups --match --regex --exclude --state --type --force \
            --internal-topics --all-or-nothing -v --verbose -y --yes --confirm --reason \
            --journal-copy -n --dry-run --canary --max-groups -b --bootstrap-server \
            --command-config --context --timeout -o --output --no-color --debug --help ;;
        "cleanup") _kgtool_lines \
            -b --bootstrap-server --command-config --context --timeout -o --output \
            --no-color --debug --help ;;
        "cleanup apply") _kgtool_lines \
            --skip-activity-check --rate -v --verbose -y --yes --confirm --reason \
            --journal-copy -n --dry-run --canary --max-groups -b --bootstrap-server \
            --command-config --context --timeout -o --output --no-color --debug --help ;;
        "cleanup plan") _kgtool_lines \
            -g --group -A --all-groups --match --regex --exclude --state --type --idle \
            --times-from --caught-up --generated --unsubscribed --orphaned --no-rebuild \
            --out --overwrite -b --bootstrap-server --command-config --context --timeout \
            -o --output --no-color --debug --help ;;
        "keep") _kgtool_lines \
            -g --group -A --all-groups --match --regex --exclude --state --type --join \
            --all-or-nothing -v --verbose -y --yes --confirm --reason --journal-copy -n \
            --dry-run --canary --max-groups -b --bootstrap-server --command-config \
            --context --timeout -o --output --no-color --debug --help ;;
        "retention") _kgtool_lines \
            -b --bootstrap-server --command-config --context --timeout -o --output \
            --no-color --debug --help ;;
        "retention apply") _kgtool_lines \
            --join --skip-activity-check -v --verbose -y --yes --confirm --reason \
            --journal-copy -n --dry-run --canary --max-groups -b --bootstrap-server \
            --command-config --context --timeout -o --output --no-color --debug --help ;;
        "retention plan") _kgtool_lines \
            --out --overwrite -b --bootstrap-server --command-config --context --timeout \
            -o --output --no-color --debug --help ;;
        "retention show") _kgtool_lines \
            -b --bootstrap-server --command-config --context --timeout -o --output \
            --no-color --debug --help ;;
        "remove-members") _kgtool_lines \
            -g --group --instance-id --member-id --client-id --all --wait-empty \
            --all-or-nothing -v --verbose -y --yes --confirm --reason --journal-copy -n \
            --dry-run --canary --max-groups -b --bootstrap-server --command-config \
            --context --timeout -o --output --no-color --debug --help ;;
        "configs") _kgtool_lines \
            -g --group -A --all-groups --match --regex --exclude --describe --all \
            --alter --add-config --delete-config --force -v --verbose -y --yes --confirm \
            --reason --journal-copy -n --dry-run --canary --max-groups -b \
            --bootstrap-server --command-config --context --timeout -o --output \
            --no-color --debug --help ;;
        "undo") _kgtool_lines \
            --from --force --list --all-or-nothing --wait-empty --as-member -v --verbose \
            -y --yes --confirm --reason --journal-copy -n --dry-run --canary \
            --max-groups -b --bootstrap-server --command-config --context --timeout -o \
            --output --no-color --debug --help ;;
        "recover") _kgtool_lines \
            -g --group -t --topic --at --from --out --force --all-or-nothing \
            --wait-empty --as-member -v --verbose -y --yes --confirm --reason \
            --journal-copy -n --dry-run --canary --max-groups -b --bootstrap-server \
            --command-config --context --timeout -o --output --no-color --debug --help ;;
        "backup") _kgtool_lines \
            -g --group -A --all-groups --match --regex --exclude --state --type --out \
            --overwrite --times -b --bootstrap-server --command-config --context \
            --timeout -o --output --no-color --debug --help ;;
        "restore") _kgtool_lines \
            -g --group -A --all-groups --match --regex --exclude -t --topic --map-group \
            --map-topic --other-cluster --by-time --checkpoints --create --no-create \
            --verify --no-verify --force --all-or-nothing --wait-empty --as-member -v \
            --verbose -y --yes --confirm --reason --journal-copy -n --dry-run --canary \
            --max-groups -b --bootstrap-server --command-config --context --timeout -o \
            --output --no-color --debug --help ;;
        "diff") _kgtool_lines \
            -g --group -A --all-groups --match --regex --exclude --cluster-b --context-b \
            --command-config-b -b --bootstrap-server --command-config --context \
            --timeout -o --output --no-color --debug --help ;;
        "export") _kgtool_lines \
            --out --format -b --bootstrap-server --command-config --context --timeout -o \
            --output --no-color --debug --help ;;
        "analyze") _kgtool_lines \
            --rules --retention --retention-was --check-interval --horizon --as-of --out \
            --only --overwrite --state --rebuild --report --plan --idle --table -g \
            --group --bucket --fail-on --strict --engine --master --conf -b \
            --bootstrap-server --command-config --context --timeout -o --output \
            --no-color --debug --help ;;
        "context") _kgtool_lines \
            --help ;;
        "context add") _kgtool_lines \
            -b --bootstrap-server --command-config --property --user --password --secret \
            --protected --not-protected --cluster-id --policy --replace --use -o \
            --output --no-color --debug --help ;;
        "context list") _kgtool_lines \
            -o --output --no-color --debug --help ;;
        "context remove") _kgtool_lines \
            -o --output --no-color --debug --help ;;
        "context rename") _kgtool_lines \
            -o --output --no-color --debug --help ;;
        "context show") _kgtool_lines \
            -o --output --no-color --debug --help ;;
        "context use") _kgtool_lines \
            --none -o --output --no-color --debug --help ;;
        "sandbox") _kgtool_lines \
            --help ;;
        "sandbox down") _kgtool_lines \
            --name --keep-data -o --output --no-color --debug --help ;;
        "sandbox seed") _kgtool_lines \
            --name -o --output --no-color --debug --help ;;
        "sandbox status") _kgtool_lines \
            --name -o --output --no-color --debug --help ;;
        "sandbox up") _kgtool_lines \
            --brokers --kafka-version --config --dir --name -o --output --no-color \
            --debug --help ;;
        "completion") _kgtool_lines \
            --help ;;
        "coordinator") _kgtool_lines \
            -g --group -b --bootstrap-server --command-config --context --timeout -o \
            --output --no-color --debug --help ;;
        "history") _kgtool_lines \
            --prune -n --dry-run --limit --no-headers -b --bootstrap-server \
            --command-config --context --timeout -o --output --no-color --debug --help ;;
        "request") _kgtool_lines \
            --body --version --api-version --broker --hex --list --schema -n --dry-run \
            -y --yes --confirm --reason -b --bootstrap-server --command-config --context \
            --timeout -o --output --no-color --debug --help ;;
        "validate-regex") _kgtool_lines \
            -b --bootstrap-server --command-config --context --timeout -o --output \
            --no-color --debug --help ;;
        "exporter") _kgtool_lines \
            --listen --token-file --interval --within --time-lag --match --regex \
            --exclude -b --bootstrap-server --command-config --context --timeout -o \
            --output --no-color --debug --help ;;
        "mcp") _kgtool_lines \
            -b --bootstrap-server --command-config --context --timeout -o --output \
            --no-color --debug --help ;;
        "man") _kgtool_lines \
            --help ;;
        "help") _kgtool_lines \
            --help ;;
        "version") _kgtool_lines \
            -o --output --no-color --debug --help ;;
    esac
}

# What stands behind an option (or, with none, as an argument): sets kind and choices. A kind that
# begins with ? may be left out; none: the option takes no value.
_kgtool_kind() {
    kind="" choices=""
    case "$1 $2" in
        " --type") kind="?list" choices="consumer classic" ;;
        " --state") kind="?list" choices="Assigning Stable Dead CompletingRebalance Reconciling Empty PreparingRebalance" ;;
        " --from-file") kind="any" ;;
        " --columns") kind="list" choices="group topic partition leader_epoch current_offset log_start_offset log_end_offset last_stable_offset lag readable lag_ms lost_at_ms in_per_s out_per_s eta_ms stuck_since_ms metadata member_id host client_id subscribed status committed_at_ms expires_at_ms rule consumer_id group_instance_id partitions current_epoch current_assignment target_epoch target_assignment subscribed_topics subscribed_regex assignor rack upgraded coordinator coordinator_id assignment_strategy state group_epoch target_assignment_epoch members lagging unknown" ;;
        " --sort") kind="words" choices="group topic partition leader_epoch current_offset log_start_offset log_end_offset last_stable_offset lag readable lag_ms lost_at_ms in_per_s out_per_s eta_ms stuck_since_ms metadata member_id host client_id subscribed status committed_at_ms expires_at_ms rule consumer_id group_instance_id partitions current_epoch current_assignment target_epoch target_assignment subscribed_topics subscribed_regex assignor rack upgraded coordinator coordinator_id assignment_strategy state group_epoch target_assignment_epoch members lagging unknown" ;;
        "list --state") kind="?list" choices="Assigning Stable Dead CompletingRebalance Reconciling Empty PreparingRebalance NotReady" ;;
        "list --type") kind="?list" choices="consumer classic share streams" ;;
        "list --columns") kind="list" choices="group type state protocol_type coordinator expiring_offsets expires_at_ms rule" ;;
        "list --sort") kind="words" choices="group type state protocol_type coordinator expiring_offsets expires_at_ms rule" ;;
        "list ") kind="groups" ;;
        "lag --type") kind="list" choices="consumer classic share streams" ;;
        "lag --state") kind="?list" choices="Assigning Stable Dead CompletingRebalance Reconciling Empty PreparingRebalance" ;;
        "lag --columns") kind="list" choices="group topic partition leader_epoch current_offset log_start_offset log_end_offset last_stable_offset lag readable lag_ms lost_at_ms in_per_s out_per_s eta_ms stuck_since_ms metadata member_id host client_id subscribed status committed_at_ms expires_at_ms rule consumer_id group_instance_id partitions current_epoch current_assignment target_epoch target_assignment subscribed_topics subscribed_regex assignor rack upgraded coordinator coordinator_id assignment_strategy state group_epoch target_assignment_epoch members lagging unknown" ;;
        "lag --sort") kind="words" choices="group topic partition leader_epoch current_offset log_start_offset log_end_offset last_stable_offset lag readable lag_ms lost_at_ms in_per_s out_per_s eta_ms stuck_since_ms metadata member_id host client_id subscribed status committed_at_ms expires_at_ms rule consumer_id group_instance_id partitions current_epoch current_assignment target_epoch target_assignment subscribed_topics subscribed_regex assignor rack upgraded coordinator coordinator_id assignment_strategy state group_epoch target_assignment_epoch members lagging unknown" ;;
        "lag ") kind="groups" ;;
        "describe --type") kind="list" choices="consumer classic share streams" ;;
        "describe --state") kind="?list" choices="Assigning Stable Dead CompletingRebalance Reconciling Empty PreparingRebalance" ;;
        "describe --columns") kind="list" choices="group topic partition leader_epoch current_offset log_start_offset log_end_offset last_stable_offset lag readable lag_ms lost_at_ms in_per_s out_per_s eta_ms stuck_since_ms metadata member_id host client_id subscribed status committed_at_ms expires_at_ms rule consumer_id group_instance_id partitions current_epoch current_assignment target_epoch target_assignment subscribed_topics subscribed_regex assignor rack upgraded coordinator coordinator_id assignment_strategy state group_epoch target_assignment_epoch members lagging unknown" ;;
        "describe --sort") kind="words" choices="group topic partition leader_epoch current_offset log_start_offset log_end_offset last_stable_offset lag readable lag_ms lost_at_ms in_per_s out_per_s eta_ms stuck_since_ms metadata member_id host client_id subscribed status committed_at_ms expires_at_ms rule consumer_id group_instance_id partitions current_epoch current_assignment target_epoch target_assignment subscribed_topics subscribed_regex assignor rack upgraded coordinator coordinator_id assignment_strategy state group_epoch target_assignment_epoch members lagging unknown" ;;
        "describe ") kind="groups" ;;
        "doctor --state") kind="list" choices="Assigning Stable Dead CompletingRebalance Reconciling Empty PreparingRebalance" ;;
        "doctor --type") kind="list" choices="consumer classic share streams" ;;
        "doctor --fail-on") kind="words" choices="problem warning note none" ;;
        "doctor ") kind="groups" ;;
        "explain ") kind="groups" ;;
        "peek --format") kind="words" choices="auto text json hex" ;;
        "peek ") kind="groups" ;;
        "reset-offsets --state") kind="list" choices="Assigning Stable Dead CompletingRebalance Reconciling Empty PreparingRebalance" ;;
        "reset-offsets --type") kind="list" choices="consumer classic share streams" ;;
        "reset-offsets --from-file") kind="files" ;;
        "reset-offsets ") kind="groups" ;;
        "delete-offsets --state") kind="list" choices="Assigning Stable Dead CompletingRebalance Reconciling Empty PreparingRebalance" ;;
        "delete-offsets --type") kind="list" choices="consumer classic share streams" ;;
        "delete-offsets ") kind="groups" ;;
        "delete --state") kind="list" choices="Assigning Stable Dead CompletingRebalance Reconciling Empty PreparingRebalance" ;;
        "delete --type") kind="list" choices="consumer classic share streams" ;;
        "delete ") kind="groups" ;;
        "cleanup apply ") kind="files" ;;
        "cleanup plan --state") kind="list" choices="Assigning Stable Dead CompletingRebalance Reconciling Empty PreparingRebalance" ;;
        "cleanup plan --type") kind="list" choices="consumer classic share streams" ;;
        "cleanup plan --out") kind="files" ;;
        "keep --state") kind="list" choices="Assigning Stable Dead CompletingRebalance Reconciling Empty PreparingRebalance" ;;
        "keep --type") kind="list" choices="consumer classic share streams" ;;
        "keep ") kind="groups" ;;
        "retention apply ") kind="files" ;;
        "retention plan --out") kind="files" ;;
        "retention plan ") kind="files" ;;
        "retention show ") kind="files" ;;
        "remove-members ") kind="groups" ;;
        "configs ") kind="groups" ;;
        "undo ") kind="journals" ;;
        "recover --out") kind="files" ;;
        "recover ") kind="groups" ;;
        "backup --state") kind="list" choices="Assigning Stable Dead CompletingRebalance Reconciling Empty PreparingRebalance" ;;
        "backup --type") kind="list" choices="consumer classic share streams" ;;
        "backup --out") kind="files" ;;
        "backup ") kind="groups" ;;
        "restore ") kind="files" ;;
        "diff ") kind="files" ;;
        "export --out") kind="files" ;;
        "export --format") kind="words" choices="segments parquet" ;;
        "analyze --out") kind="dirs" ;;
        "analyze --state") kind="dirs" ;;
        "analyze --fail-on") kind="any" ;;
        "analyze ") kind="files" ;;
        "context add ") kind="any" ;;
        "context remove ") kind="contexts" ;;
        "context rename ") kind="any" ;;
        "context show ") kind="any" ;;
        "context use ") kind="contexts" ;;
        "completion ") kind="words" choices="bash zsh fish" ;;
        "coordinator ") kind="groups" ;;
        "request ") kind="words" choices="AddOffsetsToTxn AlterShareGroupOffsets ApiVersions ConsumerGroupDescribe ConsumerGroupHeartbeat CreateTopics DeleteGroups DeleteRecords DeleteShareGroupOffsets DeleteTopics DescribeAcls DescribeCluster DescribeConfigs DescribeGroups DescribeProducers DescribeShareGroupOffsets DescribeTopicPartitions DescribeTransactions EndTxn Fetch FindCoordinator Heartbeat IncrementalAlterConfigs InitProducerId JoinGroup LeaveGroup ListConfigResources ListGroups ListOffsets ListTransactions Metadata OffsetCommit OffsetDelete OffsetFetch OffsetForLeaderEpoch Produce SaslAuthenticate SaslHandshake ShareGroupDescribe StreamsGroupDescribe StreamsGroupHeartbeat SyncGroup TxnOffsetCommit WriteTxnMarkers" ;;
        "validate-regex ") kind="any" ;;
        "man ") kind="words" choices="list lag describe doctor explain peek top reset-offsets delete-offsets delete cleanup keep retention remove-members configs undo recover backup restore diff export analyze context sandbox completion coordinator history request validate-regex exporter mcp man help version" ;;
        "help ") kind="words" choices="list lag describe doctor explain peek top reset-offsets delete-offsets delete cleanup keep retention remove-members configs undo recover backup restore diff export analyze context sandbox completion coordinator history request validate-regex exporter mcp man help version all safety kafka" ;;
    esac
    case "$2" in
        -t|--topic) [[ -n $kind ]] || kind="topics" ;;
        --exclude) [[ -n $kind ]] || kind="any" ;;
        --match) [[ -n $kind ]] || kind="any" ;;
        -g|--group) [[ -n $kind ]] || kind="groups" ;;
        --expiring-within) [[ -n $kind ]] || kind="any" ;;
        --wait-empty) [[ -n $kind ]] || kind="any" ;;
        --like) [[ -n $kind ]] || kind="groups" ;;
        --by-duration) [[ -n $kind ]] || kind="any" ;;
        --to-datetime) [[ -n $kind ]] || kind="any" ;;
        --shift-by) [[ -n $kind ]] || kind="any" ;;
        --to-offset) [[ -n $kind ]] || kind="any" ;;
        --regex) [[ -n $kind ]] || kind="any" ;;
        --validate-regex) [[ -n $kind ]] || kind="any" ;;
        --lag) [[ -n $kind ]] || kind="any" ;;
        --by) [[ -n $kind ]] || kind="words" choices="group topic partition" ;;
        --loses-within) [[ -n $kind ]] || kind="any" ;;
        --over) [[ -n $kind ]] || kind="any" ;;
        --limit) [[ -n $kind ]] || kind="any" ;;
        -w|--watch) [[ -n $kind ]] || kind="?any" ;;
        --prometheus) [[ -n $kind ]] || kind="files" ;;
        --confirm) [[ -n $kind ]] || kind="any" ;;
        --reason) [[ -n $kind ]] || kind="any" ;;
        --journal-copy) [[ -n $kind ]] || kind="any" ;;
        --canary) [[ -n $kind ]] || kind="any" ;;
        --max-groups) [[ -n $kind ]] || kind="any" ;;
        -b|--bootstrap-server) [[ -n $kind ]] || kind="any" ;;
        --command-config) [[ -n $kind ]] || kind="files" ;;
        --context) [[ -n $kind ]] || kind="contexts" ;;
        --timeout) [[ -n $kind ]] || kind="any" ;;
        -o|--output) [[ -n $kind ]] || kind="words" choices="text json ndjson csv yaml name wide" ;;
        --within) [[ -n $kind ]] || kind="any" ;;
        --ignore) [[ -n $kind ]] || kind="words" choices="broker-down offsets-no-leader coordinator-loading offsets-not-compacted unknown-to-coordinator offsets-not-cleaned offsets-segments offsets-growth offsets-under-replicated offsets-replication no-leader topic-recreated beyond-end before-start at-risk uncommitted pending-transaction expiring loses-when-empty retention-gap retention-short retention-differs check-interval ghost-topic topic-gone rebalancing member-behind piling-up broker-old not-kafka brokers-mixed denied" ;;
        --rules) [[ -n $kind ]] || kind="words" choices="auto pre-2.1 2.1 2.4 3.7-new 3.8-new 4.1" ;;
        --before) [[ -n $kind ]] || kind="any" ;;
        --after) [[ -n $kind ]] || kind="any" ;;
        --key-format) [[ -n $kind ]] || kind="words" choices="auto text json hex" ;;
        --interval) [[ -n $kind ]] || kind="any" ;;
        --to) [[ -n $kind ]] || kind="any" ;;
        --rate) [[ -n $kind ]] || kind="any" ;;
        --idle) [[ -n $kind ]] || kind="any" ;;
        --times-from) [[ -n $kind ]] || kind="files" ;;
        --instance-id) [[ -n $kind ]] || kind="any" ;;
        --member-id) [[ -n $kind ]] || kind="any" ;;
        --client-id) [[ -n $kind ]] || kind="any" ;;
        --add-config) [[ -n $kind ]] || kind="any" ;;
        --delete-config) [[ -n $kind ]] || kind="any" ;;
        --from) [[ -n $kind ]] || kind="files" ;;
        --at) [[ -n $kind ]] || kind="any" ;;
        --map-group) [[ -n $kind ]] || kind="any" ;;
        --map-topic) [[ -n $kind ]] || kind="any" ;;
        --checkpoints) [[ -n $kind ]] || kind="any" ;;
        --cluster-b) [[ -n $kind ]] || kind="any" ;;
        --context-b) [[ -n $kind ]] || kind="any" ;;
        --command-config-b) [[ -n $kind ]] || kind="files" ;;
        --retention) [[ -n $kind ]] || kind="any" ;;
        --retention-was) [[ -n $kind ]] || kind="any" ;;
        --check-interval) [[ -n $kind ]] || kind="any" ;;
        --horizon) [[ -n $kind ]] || kind="any" ;;
        --as-of) [[ -n $kind ]] || kind="any" ;;
        --only) [[ -n $kind ]] || kind="words" choices="live removals overdue whatif whatif_families losses groups metrics partitions writers transactions orphans gaps upgrades quality" ;;
        --report) [[ -n $kind ]] || kind="files" ;;
        --plan) [[ -n $kind ]] || kind="files" ;;
        --table) [[ -n $kind ]] || kind="words" choices="live removals overdue whatif whatif_families losses groups metrics partitions writers transactions orphans gaps upgrades quality" ;;
        --bucket) [[ -n $kind ]] || kind="any" ;;
        --engine) [[ -n $kind ]] || kind="words" choices="spark local" ;;
        --master) [[ -n $kind ]] || kind="any" ;;
        --conf) [[ -n $kind ]] || kind="any" ;;
        --property) [[ -n $kind ]] || kind="any" ;;
        --user) [[ -n $kind ]] || kind="any" ;;
        --password) [[ -n $kind ]] || kind="any" ;;
        --secret) [[ -n $kind ]] || kind="any" ;;
        --cluster-id) [[ -n $kind ]] || kind="any" ;;
        --policy) [[ -n $kind ]] || kind="files" ;;
        --name) [[ -n $kind ]] || kind="any" ;;
        --brokers) [[ -n $kind ]] || kind="any" ;;
        --kafka-version) [[ -n $kind ]] || kind="words" choices="4.4.0 4.3.1 3.9.1" ;;
        --config) [[ -n $kind ]] || kind="any" ;;
        --dir) [[ -n $kind ]] || kind="dirs" ;;
        --prune) [[ -n $kind ]] || kind="any" ;;
        --body) [[ -n $kind ]] || kind="files" ;;
        --version|--api-version) [[ -n $kind ]] || kind="any" ;;
        --broker) [[ -n $kind ]] || kind="any" ;;
        --listen) [[ -n $kind ]] || kind="any" ;;
        --token-file) [[ -n $kind ]] || kind="files" ;;
    esac
}

# Splits a line into words as the shell would: bash itself also breaks them at = and :.
_kgtool_split() {
    local line=$1 char word="" begun=""
    local -i at
    quote="" words=()
    for ((at = 0; at < ${#line}; at++)); do
        char=${line:at:1}
        if [[ -n $quote ]]; then
            if [[ $char == "$quote" ]]; then quote=""; else word+=$char; fi
        elif [[ $char == "'" || $char == '"' ]]; then
            quote=$char begun=1
        elif [[ $char == "\\" ]]; then
            at+=1
            word+=${line:at:1} begun=1
        elif [[ $char == " " || $char == $'\t' ]]; then
            [[ -n $word$begun ]] && words+=("$word")
            word="" begun=""
        else
            word+=$char
        fi
    done
    words+=("$word")
}

# Takes the candidates on stdin, one a line, that begin with $1; $2 stands before each of them.
_kgtool_take() {
    local candidate reply
    while IFS= read -r candidate; do
        [[ -n $candidate && $candidate == "$1"* ]] || continue
        reply=$2$candidate
        reply=${reply#"$typed"}
        [[ -n $quote ]] || printf -v reply %q "$reply"
        COMPREPLY+=("$reply")
    done
}

_kgtool_lines() {
    local IFS=$' \n'
    # shellcheck disable=SC2086
    (($#)) && printf '%s\n' $*
}

# Completes a value of $kind that begins with $1; $2 stands before it.
_kgtool_value() {
    local before=$2
    case "${kind#\?}" in
        words) _kgtool_take "$1" "$before" < <(_kgtool_lines "$choices") ;;
        list)
            [[ $1 == *,* ]] && before+="${1%,*},"
            _kgtool_take "${1##*,}" "$before" < <(_kgtool_lines "$choices")
            ;;
        files | dirs)
            compopt -o filenames 2>/dev/null
            local flag=-f path
            [[ ${kind#\?} == dirs ]] && flag=-d
            while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen "$flag" -- "$1")
            ;;
        groups | topics | contexts | journals)
            _kgtool_take "$1" "$before" < <(
                _KGTOOL_COMPLETE=${kind#\?} command "${words[@]}" 2>/dev/null | cut -f 1
            )
            ;;
    esac
}

_kgtool() {
    local path="" pending="" word cur current typed kind choices quote
    local -a words
    local -i at last
    COMPREPLY=()
    _kgtool_split "${COMP_LINE:0:COMP_POINT}"
    last=$((${#words[@]} - 1))
    cur=${words[last]}
    # What bash keeps of the word that is being completed, because it breaks words earlier.
    current=${COMP_WORDS[COMP_CWORD]}
    [[ $current == [=:] ]] && current=""
    typed=""
    [[ $cur == *"$current" ]] && typed=${cur%"$current"}
    for ((at = 1; at < last; at++)); do
        word=${words[at]}
        if [[ -n $pending ]]; then
            _kgtool_kind "$path" "$pending"
            pending=""
            [[ $kind != \?* || $word != -* ]] && continue
        fi
        if [[ $word == -* ]]; then
            _kgtool_kind "$path" "$word"
            [[ $word == *=* || -z $kind ]] || pending=$word
        elif [[ " $(_kgtool_commands "$path" | tr '\n' ' ') " == *" $word "* ]]; then
            path=${path:+$path }$word
        fi
    done
    if [[ -n $pending && $cur != -* ]]; then
        _kgtool_kind "$path" "$pending"
        _kgtool_value "$cur" ""
    elif [[ $cur == --*=* ]]; then
        _kgtool_kind "$path" "${cur%%=*}"
        _kgtool_value "${cur#*=}" "${cur%%=*}="
    elif [[ $cur == -* ]]; then
        _kgtool_take "$cur" "" < <(_kgtool_options "$path")
    else
        _kgtool_take "$cur" "" < <(_kgtool_commands "$path")
        _kgtool_kind "$path" ""
        [[ -n $kind ]] && _kgtool_value "$cur" ""
    fi
}

complete -o nosort -F _kgtool kgtool 2>/dev/null || complete -F _kgtool kgtool
