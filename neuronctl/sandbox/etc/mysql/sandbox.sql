-- slurmdbd would create its database, but only after it has failed to connect to it. With libmariadb3
-- 11.8.9 (MariaDB Connector/C 3.4.10), a handle that failed to connect can read no columns afterwards.
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
